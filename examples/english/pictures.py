"""Draws the pictures of README.md and docs/ with the bundled model, and writes the numbers in them next to them.

    python examples/english/pictures.py

docs/images/NAME.png is what the command prints and draws; docs/images/NAME.json holds its numbers. A test computes the
numbers again, so that a picture of other weights is found.
"""

import argparse
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"

# Arguments of `elmo-hf analyse`, as README.md shows them.
PICTURES = {
    "similarity-word": [
        "similarity",
        "english",
        "She sat down to play the piano.",
        "He learned to play the guitar.",
        "The play ended and the actors bowed.",
        "The play was written by a young poet.",
        "--word",
        "play",
    ],
    "surprise": ["surprise", "english", "--text", "The cat sat on the moon and slept."],
    "similarity-sentences": [
        "similarity",
        "english",
        "The bank raised its interest rates last year.",
        "We sat on the bank of the river.",
    ],
}


def command(name: str, picture: Path | None, numbers: Path) -> list[str]:
    """The arguments of `elmo-hf` that make a picture and its numbers.

    >>> command("surprise", Path("a.png"), Path("a.json"))[-4:]
    ['--plot', 'a.png', '--json', 'a.json']
    """
    plot = [] if picture is None else ["--plot", str(picture)]
    return ["analyse", *PICTURES[name], *plot, "--json", str(numbers)]


def sense_numbers() -> dict[str, Any]:
    """The mean cosines in docs/images/senses.png: {word: [[within a sense, by layer], [across senses, by layer]]}."""
    from elmo_hf import ElmoScorer, bundled_model
    from elmo_hf.bundled import senses
    from elmo_hf.bundled.sense_plot import mean_cosines
    from elmo_hf.bundled.sense_test import separation
    from elmo_hf.bundled.whitespace_reader import WhitespaceReader

    scorer = ElmoScorer.from_pretrained(bundled_model("english"))
    reader = WhitespaceReader(scorer.model, scorer.tokenizer)
    return {
        word: mean_cosines(separation(word, sentences, reader)).round(4).tolist()
        for word, sentences in senses().items()
    }


def main():
    """The command."""
    from elmo_hf.cli import app

    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for name in PICTURES:
        app(command(name, IMAGES / f"{name}.png", IMAGES / f"{name}.json"), standalone_mode=False)
    app(["demo", "--plot", str(IMAGES / "senses.png")], standalone_mode=False)
    (IMAGES / "senses.json").write_text(json.dumps(sense_numbers()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
