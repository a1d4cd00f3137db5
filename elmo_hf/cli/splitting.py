"""`elmo-hf splitting`: how each splitting would split a text."""

from itertools import islice
from typing import Annotated

import typer

from elmo_hf.cli.text_input import ErrorHandling
from elmo_hf.text.files import TEXT_FILES, plural

SHOWN_SENTENCES, MAX_WIDTH = 10, 160


def splitting(
    files: Annotated[list[str], typer.Argument(metavar="FILES", help=TEXT_FILES, show_default=False)],
    sentences: Annotated[int, typer.Option(help="How many sentences are read.", min=2)] = 20_000,
    min_count: Annotated[int, typer.Option(help="How often a word of the vocabulary must occur.", min=1)] = 3,
    errors: ErrorHandling = "strict",
):
    """Show how each splitting splits a text, and propose one.

    Example: elmo-hf splitting corpus.txt

    Ten sentences are printed under each splitting. The table shows how many words the text has, and its vocabulary
    coverage: the share of the words in every second sentence that occur often enough in the other sentences.
    """
    from elmo_hf.model.tokenization_elmo import ElmoTokenizer
    from elmo_hf.pretraining.splitting_choice import SAMPLE_LINES
    from elmo_hf.pretraining.vocabulary import held_out_coverage
    from elmo_hf.text.inputs import read_lines
    from elmo_hf.text.splitting import SPLITTING_NAMES, propose_splitting

    lines = list(islice(read_lines(files, errors), sentences))
    if len(lines) < 2:
        raise ValueError(f"{' '.join(files)}: {plural(len(lines), 'sentence')}. Expected two sentences or more.")
    proposal = propose_splitting(lines[:SAMPLE_LINES])
    names = [name for name in SPLITTING_NAMES if name != "residues" or name == proposal.splitting]
    words = {name: ElmoTokenizer(name).split(lines) for name in names}
    shown = range(0, len(lines), max(len(lines) // SHOWN_SENTENCES, 1))[:SHOWN_SENTENCES]
    for number in shown:
        typer.echo(lines[number][:MAX_WIDTH])
        for name in names:
            typer.echo(f"  {name:14}{' | '.join(words[name][number])[:MAX_WIDTH]}")
    typer.echo(f"\n{'splitting':16}{'words':>12}{'different':>12}{'coverage':>12}")
    for name in names:
        total, different = sum(map(len, words[name])), len({word for sentence in words[name] for word in sentence})
        coverage = held_out_coverage(words[name], min_count)
        typer.echo(f"{name:16}{total:12,}{different:12,}{coverage:12.1%}")
    option = " --tokenized" if proposal.tokenized else ""
    typer.echo(f"\nproposal: --splitting {proposal.splitting}{option} ({proposal.reason})")
