"""Coreference: documents in the columns of CoNLL 2012, what a model trains on, and the score of CoNLL."""

import os
import re
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from elmo_hf.text.files import excerpt, numbered_lines, opened

Span = tuple[int, int, int]
MARK = re.compile(r"(\()?(\d+)(\))?")


class Document(NamedTuple):
    """A document: its name, its sentences, and clusters of mentions (sentence, first word, last word).

    Example:

    ```python
    >>> from elmo_hf.text.coreference import Document
    >>> Document("d", [["She", "slept"]], [[(0, 0, 0)]]).sentences
    [['She', 'slept']]

    ```
    """

    name: str
    sentences: list[list[str]]
    clusters: list[list[Span]]


def read_coreference(path: str | os.PathLike) -> list[Document]:
    """Reads documents in the columns of CoNLL 2012: the word in the fourth, coreference in the last.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.text.coreference import read_coreference
    >>> words = [("Ann", "(0)"), ("saw", "-"), ("her", "(0)")]
    >>> lines = ["#begin document (d); part 0", *[f"d 0 {n} {w} {c}" for n, (w, c) in enumerate(words)]]
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.conll")
    >>> _ = path.write_text("\\n".join([*lines, "", "#end document"]))
    >>> read_coreference(path)
    [Document(name='d', sentences=[['Ann', 'saw', 'her']], clusters=[[(0, 0, 0), (0, 2, 2)]])]

    ```
    """
    documents: list[Document] = []
    rows: list[list[str]] = []
    name, first_line, inside = "", 0, False
    sentences: list[tuple[int, list[list[str]]]] = []
    for number, line in [*numbered_lines(path), (0, "")]:
        if line.startswith("#begin document"):
            inside, sentences = True, []
            found = re.search(r"\((.*)\)(?:; part (\d+))?", line)
            name = found[1] if found else ""
            if found and int(found[2] or 0):
                name += f", part {int(found[2])}"
        elif line.startswith("#end document") or not line.strip():
            if rows:
                sentences.append((first_line, rows))
            rows = []
            if line.startswith("#"):
                documents.append(_document(path, name, sentences))
                inside = False
        elif inside:
            if not rows:
                first_line = number
            fields = line.split("\t") if "\t" in line else line.split()
            if len(fields) < 5:
                raise ValueError(f"{path}, line {number}: {len(fields)} columns; accepted are CoNLL 2012's.")
            rows.append([fields[3], fields[-1].strip()])
        else:
            raise ValueError(f"{path}, line {number} is in no document; accepted begin with '#begin document'.")
    if inside:
        raise ValueError(f"{path}: the document {name} has no '#end document'.")
    return documents


def coreference_files(path: str | os.PathLike) -> dict[str, list[Document]]:
    """The documents of each file of a folder of `*.conll`, an archive of them (tar, also packed), or a list of files,
    a name a line beside the list; in the order of the numbers that the files' names begin with.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.text.coreference import coreference_files
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("10_b.conll", "9_a.conll"):
    ...     _ = (folder / name).write_text("#begin document (a); part 0\\na 0 0 Ann (0)\\n\\n#end document")
    >>> list(coreference_files(folder))
    ['9_a.conll', '10_b.conll']

    ```
    """
    path = Path(path)
    if path.is_file():
        # `opened` says in a sentence what is packed and broken.
        with opened(path) as (file, _), tempfile.TemporaryDirectory() as folder:
            if _unpacked(file, folder, path):
                return coreference_files(folder)
    if path.is_dir():
        files = list(path.glob("*conll"))
    else:
        files = [path.parent / name for _, line in numbered_lines(path) for name in line.split()]
        missing = next((file.name for file in files if not file.is_file()), None)
        if missing is not None:
            raise ValueError(
                f"{path} is no archive that can be read, and as a list of files it names {excerpt(missing)!r}, which "
                "is not beside it."
            )
    numbered = sorted(files, key=lambda file: (int("0" + re.match(r"\d*", file.name)[0]), file.name))
    if not numbered:
        raise ValueError(f"{path} holds no file whose name ends in conll.")
    return {file.name: read_coreference(file) for file in numbered}


def _unpacked(file: BinaryIO, folder: str, path: Path) -> bool:
    """Whether a file is an archive; what it holds lies in the folder then."""
    try:
        archive = tarfile.open(fileobj=file)
    except tarfile.ReadError:
        return False
    try:
        with archive:
            archive.extractall(folder, filter="data")
    except tarfile.TarError as error:
        raise ValueError(f"{path} is a broken archive: {error}.") from error
    return True


def _document(path: str | os.PathLike, name: str, sentences: list[tuple[int, list[list[str]]]]) -> Document:
    clusters: dict[int, list[Span]] = {}
    for number, (line, rows) in enumerate(sentences):
        begun: dict[int, list[int]] = {}
        for place, (_, marks) in enumerate(rows):
            where = f"{path}, line {line + place}"
            for part in marks.split("|") if marks not in ("", "-", "_") else ():
                match = MARK.fullmatch(part)
                if match is None or not (match[1] or match[3]):
                    raise ValueError(f"{where}: {part!r} is no mark of a mention; accepted are (1, 1) and (1).")
                cluster = int(match[2])
                if match[1]:
                    begun.setdefault(cluster, []).append(place)
                if match[3]:
                    if not begun.get(cluster):
                        raise ValueError(f"{where}: a mention of the cluster {cluster} ends that has not begun.")
                    clusters.setdefault(cluster, []).append((number, begun[cluster].pop(), place))
        left = [cluster for cluster, places in begun.items() if places]
        if left:
            raise ValueError(f"{path}, line {line}: a mention of the cluster {left[0]} does not end in its sentence.")
    words = [[word for word, _ in rows] for _, rows in sentences]
    return Document(name, words, [sorted(set(mentions)) for mentions in clusters.values()])


def parts_of(document: Document, sentences: int) -> list[Document]:
    """A document in parts of so many sentences, each with the mentions inside of it.

    Example:

    ```python
    >>> from elmo_hf.text.coreference import Document, parts_of
    >>> document = Document("d", [["a"], ["b"]], [[(0, 0, 0), (1, 0, 0)]])
    >>> [part.clusters for part in parts_of(document, 1)]
    [[[(0, 0, 0)]], [[(0, 0, 0)]]]

    ```
    """
    parts = []
    for begin in range(0, len(document.sentences), sentences):
        inside = range(begin, begin + sentences)
        clusters = [[(s - begin, i, j) for s, i, j in cluster if s in inside] for cluster in document.clusters]
        name = f"{document.name}, from sentence {begin}"
        parts.append(Document(name, document.sentences[begin : begin + sentences], [one for one in clusters if one]))
    return parts


def encode_document(document: Document, tokenizer: Any) -> dict[str, Any]:
    """A document -> what ElmoForCoreference trains on: the ids of its sentences and its mentions, as tensors.

    Example:

    ```python
    >>> from elmo_hf import ElmoTokenizer
    >>> from elmo_hf.text.coreference import Document, encode_document
    >>> document = Document("d", [["Ann", "saw", "her"]], [[(0, 0, 0), (0, 2, 2)]])
    >>> encode_document(document, ElmoTokenizer())["labels"].tolist()
    [[0, 0, 0, 0], [0, 2, 2, 0]]

    ```
    """
    import torch

    batch = tokenizer(document.sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    mentions = [[*span, number] for number, cluster in enumerate(document.clusters) for span in cluster]
    return {**batch, "labels": torch.tensor(mentions, dtype=torch.long).reshape(-1, 4)}


def coreference_scores(
    found: Iterable[Sequence[Sequence[Any]]], wanted: Iterable[Sequence[Sequence[Any]]]
) -> dict[str, float]:
    """MUC, B³ and CEAFe over all documents, in percent, and their mean F1, the score of CoNLL 2012.

    Args:
        found, wanted: for each document its clusters, lists of mentions.

    Example:

    ```python
    >>> from elmo_hf.text.coreference import coreference_scores
    >>> {name: round(value, 1) for name, value in coreference_scores([[["a", "b"]]], [[["a", "b", "c"]]]).items()}
    {'muc': 66.7, 'b_cubed': 61.5, 'ceaf_e': 80.0, 'conll': 69.4}

    ```
    """
    counts = np.zeros((3, 2, 2))  # measure; precision, recall; right, of
    for guess, gold in zip(found, wanted, strict=True):
        guess, gold = ([frozenset(cluster) for cluster in clusters if cluster] for clusters in (guess, gold))
        counts[:, 0] += [_muc(guess, gold), _b_cubed(guess, gold), _ceaf_e(guess, gold)]
        counts[:, 1] += [_muc(gold, guess), _b_cubed(gold, guess), _ceaf_e(gold, guess)]
    precision, recall = (counts[:, side, 0] / np.maximum(counts[:, side, 1], 1e-12) for side in (0, 1))
    f1 = 200 * precision * recall / np.maximum(precision + recall, 1e-12)
    return {**dict(zip(("muc", "b_cubed", "ceaf_e"), f1.tolist(), strict=True)), "conll": float(f1.mean())}


def _muc(own: list[frozenset], other: list[frozenset]) -> tuple[float, float]:
    """Links of `own` clusters that are kept in the other ones, of all links."""
    place = {mention: number for number, cluster in enumerate(other) for mention in cluster}
    kept = 0
    for cluster in own:
        pieces = {place.get(mention, (mention,)) for mention in cluster}
        kept += len(cluster) - len(pieces)
    return kept, sum(len(cluster) - 1 for cluster in own)


def _b_cubed(own: list[frozenset], other: list[frozenset]) -> tuple[float, float]:
    """For each mention the share of its own cluster that is with it in the other one."""
    cluster_of = {mention: cluster for cluster in other for mention in cluster}
    none: frozenset = frozenset()
    right = sum(len(one & cluster_of.get(mention, none)) / len(one) for one in own for mention in one)
    return right, sum(map(len, own))


def _ceaf_e(own: list[frozenset], other: list[frozenset]) -> tuple[float, float]:
    """The similarity `2 |A & B| / (|A| + |B|)` of clusters under the best pairing of them, of all own clusters."""
    if not own or not other:
        return 0.0, len(own)
    similarity = np.array([[2 * len(a & b) / (len(a) + len(b)) for b in other] for a in own])
    return _best_pairing(similarity), len(own)


def _best_pairing(similarity: np.ndarray) -> float:
    """The largest sum of one value in each row and column (the Hungarian method, row by row)."""
    cost = -similarity if similarity.shape[0] <= similarity.shape[1] else -similarity.T
    rows, columns = cost.shape
    row_price, column_price = np.zeros(rows + 1), np.zeros(columns + 1)
    row_of = np.zeros(columns + 1, dtype=int)  # numbers from 1; 0 is no row
    for row in range(1, rows + 1):
        row_of[0], column = row, 0
        least, before = np.full(columns + 1, np.inf), np.zeros(columns + 1, dtype=int)
        seen = np.zeros(columns + 1, dtype=bool)
        while row_of[column]:
            seen[column] = True
            now = row_of[column]
            free = np.flatnonzero(~seen[1:]) + 1
            reduced = cost[now - 1, free - 1] - row_price[now] - column_price[free]
            better = reduced < least[free]
            least[free[better]], before[free[better]] = reduced[better], column
            following = free[least[free].argmin()]
            step = least[following]
            row_price[row_of[seen]] += step
            column_price[seen] -= step
            least[free] -= step
            column = following
        while column:
            row_of[column], column = row_of[before[column]], before[column]
    return float(-sum(cost[row_of[column] - 1, column - 1] for column in range(1, columns + 1) if row_of[column]))


__all__ = ["Document", "coreference_files", "coreference_scores", "encode_document", "parts_of", "read_coreference"]
