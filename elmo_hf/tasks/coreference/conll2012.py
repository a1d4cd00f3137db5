"""Documents in the columns of CoNLL 2012, and their mentions as tensors."""

import os
import re
import tarfile
import tempfile
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from elmo_hf.text.files import excerpt, numbered_lines, opened

Span = tuple[int, int, int]
MARK = re.compile(r"(\()?(\d+)(\))?")


class Document(NamedTuple):
    """A document: its name, its sentences, and clusters of mentions (sentence, first word, last word).

    Example:

    ```python
    >>> from elmo_hf.tasks.coreference.conll2012 import Document
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
    >>> from elmo_hf.tasks.coreference.conll2012 import read_coreference
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
            match = re.search(r"\((.*)\)(?:; part (\d+))?", line)
            name = match[1] if match else ""
            if match and int(match[2] or 0):
                name += f", part {int(match[2])}"
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
                raise ValueError(f"{path}, line {number}: {len(fields)} columns. Expected those of CoNLL 2012.")
            rows.append([fields[3], fields[-1].strip()])
        else:
            raise ValueError(f"{path}, line {number} is in no document. Expected '#begin document' before it.")
    if inside:
        raise ValueError(f"{path}: the document {name} has no '#end document'.")
    return documents


def coreference_files(path: str | os.PathLike) -> dict[str, list[Document]]:
    """The documents of one file, or of each file of a folder of `*.conll`, an archive of them (tar, also packed), or a
    list of files, a name a line beside the list; in the order of the numbers that the files' names begin with.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.tasks.coreference.conll2012 import coreference_files
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
        if next((line for _, line in numbered_lines(path) if line.strip()), "").startswith("#begin document"):
            return {path.name: read_coreference(path)}
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
    numbered = sorted(files, key=lambda file: (int("0" + re.sub(r"\D.*", "", file.name)), file.name))
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
                    raise ValueError(f"{where}: {part!r} is no mark of a mention. Expected (1, 1) or (1).")
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
    >>> from elmo_hf.tasks.coreference.conll2012 import Document, parts_of
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
        parts.append(
            Document(name, document.sentences[begin : begin + sentences], [cluster for cluster in clusters if cluster])
        )
    return parts


def encode_document(document: Document, tokenizer: Any) -> dict[str, Any]:
    """A document -> what ElmoForCoreference trains on: the ids of its sentences and its mentions, as tensors.

    Example:

    ```python
    >>> from elmo_hf import ElmoTokenizer
    >>> from elmo_hf.tasks.coreference.conll2012 import Document, encode_document
    >>> document = Document("d", [["Ann", "saw", "her"]], [[(0, 0, 0), (0, 2, 2)]])
    >>> encode_document(document, ElmoTokenizer())["labels"].tolist()
    [[0, 0, 0, 0], [0, 2, 2, 0]]

    ```
    """
    import torch

    batch = tokenizer(document.sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    mentions = [[*span, number] for number, cluster in enumerate(document.clusters) for span in cluster]
    return {**batch, "labels": torch.tensor(mentions, dtype=torch.long).reshape(-1, 4)}


__all__ = ["Document", "coreference_files", "encode_document", "parts_of", "read_coreference"]
