"""Named entities: a linear layer on ELMo, trained and tested on WNUT17, whose test entities were never seen.

    python examples/tasks/ner.py DATA -o ner.json

DATA holds wnut17train.conll and emerging.test.annotated (https://github.com/leondz/emerging_entities_17, CC BY 4.0).
"""

from pathlib import Path

from tagging import Data, arguments, compare

from elmo_hf import entity_metrics, read_conll


def read(folder: Path) -> Data:
    """The training and the test sentences."""
    return Data(
        *(read_conll(folder / name, separator="\t") for name in ("wnut17train.conll", "emerging.test.annotated"))
    )


if __name__ == "__main__":
    given = arguments(__doc__, epochs=3)
    compare(given, read(given.data), entity_metrics, "f1")
