"""Measures a language model's perplexity on each held-out source and on WikiText-2's test text.

    python examples/english/evaluate.py english text --wikitext test.txt.gz -o measured/perplexity.json

The softmax is the full one, each sentence is read from a fresh state, and a word that the vocabulary lacks is
predicted as <UNK>. WikiText-2: headings are left out, paragraphs are cut into sentences, `@-@` is undone, and the
places of its own `<unk>` are read but nobody is asked to predict them.
"""

import argparse
import json
import math
from pathlib import Path

from held_out import LEFT_OUT, held_out_texts, sentences_of

from elmo_hf import ElmoScorer
from elmo_hf.bundled import find_model


def losses(scorer: ElmoScorer, path: Path) -> tuple[float, float, int]:
    """Mean losses forward and backward over the tokens that were asked for, and how many these are."""
    forward, backward, tokens = 0.0, 0.0, 0
    for score in scorer.score_stream(sentences_of(path)):
        asked = [token != LEFT_OUT for token in score.tokens]
        forward -= score.forward[asked].sum()
        backward -= score.backward[asked].sum()
        tokens += sum(asked) - 1  # each direction is given one of the two boundaries
    return forward / tokens, backward / tokens, tokens


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="A folder, a repository of the Hub, or english.")
    parser.add_argument("text", type=Path, help="The folder that prepare.py wrote.")
    parser.add_argument("--wikitext", type=Path, help="WikiText-2's test.txt.gz.")
    parser.add_argument("--only", nargs="+", help="Names of texts. Default: all.")
    parser.add_argument("-o", "--output", type=Path, help="A file for the numbers (JSON).")
    arguments = parser.parse_args()
    name, _ = find_model(arguments.model)
    scorer = ElmoScorer.from_pretrained(name, batch_size=64)
    perplexity = {}
    for text, path in held_out_texts(arguments.text, arguments.wikitext).items():
        if arguments.only and text not in arguments.only:
            continue
        forward, backward, tokens = losses(scorer, path)
        perplexities = [math.exp(loss) for loss in (forward, backward, (forward + backward) / 2)]
        perplexity[text] = dict(zip(("forward", "backward", "average"), perplexities, strict=True)) | {
            "tokens": tokens
        }
        print(f"{text:<14}" + "".join(f"{value:>9.2f}" for value in perplexities) + f"{tokens:>10,}", flush=True)
    if arguments.output:
        arguments.output.parent.mkdir(exist_ok=True)
        arguments.output.write_text(json.dumps({"perplexity": perplexity}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
