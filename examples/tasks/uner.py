"""Entities of Universal NER on English EWT: persons, places and organizations. Prints F1 of whole entities.

The training file, of the first commit of 2022, has further kinds of entities, which the others lack: they become O.
Its lines have 3 or 5 columns, so it is read here: number, word and label come first.
"""

from typing import Any

from common import recipe

from elmo_hf.text.files import numbered_lines

KINDS = ("PER", "LOC", "ORG")


def sentences(path: str) -> list[dict[str, list[str]]]:
    """The words and labels of each sentence of a file."""
    rows: list[dict[str, list[str]]] = []
    for _, line in numbered_lines(path):
        fields = line.split("\t")
        if len(fields) < 3 or line.startswith("#"):
            continue
        if fields[0] == "1":
            rows.append({"tokens": [], "labels": []})
        rows[-1]["tokens"].append(fields[1])
        rows[-1]["labels"].append(fields[2] if fields[2][2:] in KINDS else "O")
    return rows


def read(task: Any, train: str, test: str) -> tuple[Any, Any]:
    """The sentences of both files."""
    return task.from_rows(sentences(train)), task.from_rows(sentences(test))


main = recipe("ner", __doc__, epochs=5, lr=0.01, read=read)

if __name__ == "__main__":
    main()
