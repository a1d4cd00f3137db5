"""Chooses the sentences that the demonstration looks for neighbours in, from text that the model was not trained on.

    python examples/english/sentences.py text

TEXT is the folder that prepare.py wrote. Chosen are all short sentences with one of the words of senses.json, and
others, a hash of the sentence decides which, until there are COUNT. Wikipedia is left out: its licence would bind.
"""

import argparse
import json
from pathlib import Path

from prepare import share

BUNDLED = Path(__file__).resolve().parents[2] / "elmo_hf" / "bundled"
SOURCES = ("tatoeba", "litbank", "openstax")
COUNT, SHORTEST, LONGEST = 3000, 4, 20


def choose(text: Path) -> list[str]:
    """Sentences in the order of their hashes, so that sources are mixed."""
    words = set(json.loads((BUNDLED / "senses.json").read_text(encoding="utf-8")))
    candidates = {
        line: bool(words & set(line.split()))
        for source in SOURCES
        for line in (text / "held-out" / f"{source}.txt").read_text(encoding="utf-8").split("\n")
        if SHORTEST <= len(line.split()) <= LONGEST
    }
    chosen = sorted(candidates, key=lambda line: (not candidates[line], share(line)))[:COUNT]
    return sorted(chosen, key=share)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="The folder that prepare.py wrote.")
    chosen = choose(parser.parse_args().text)
    (BUNDLED / "sentences.txt").write_text("".join(line + "\n" for line in chosen), encoding="utf-8")
    print(f"{len(chosen):,} sentences, {sum(len(line.split()) for line in chosen):,} words")
