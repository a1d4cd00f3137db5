"""Words with their senses: the unified XML files with their keys, WordNet's index, and plain tables."""

import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elmo_hf.text.files import numbered_lines, opened

# Names in the file of one set begin with the document; those in the file of all sets with the set.
DOCUMENT = re.compile(r"d\d+\.")
POS_OF_TYPE = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}


@dataclass
class SenseInstance:
    """A word that has a sense in its sentence.

    Args:
        word: the lemma and part of speech (`bank NOUN`) whose senses are told apart.
        senses: the right ones.
        sentence: number of the sentence.
        start, stop: its words, several for a name or a compound.
        part: the set that it belongs to, if the file has several.
    """

    word: str
    senses: list[str]
    sentence: int
    start: int
    stop: int
    part: str = ""


@dataclass
class SenseData:
    """Sentences, and the words in them that have senses."""

    sentences: list[list[str]] = field(default_factory=list)
    instances: list[SenseInstance] = field(default_factory=list)


def read_senses(path: str | os.PathLike) -> SenseData:
    """Reads words with senses.

    Args:
        path: `NAME.data.xml` of the unified framework (packed too), beside which `NAME.gold.key.txt` lies; or a table
            with tabs: word, sense, sentence (words between spaces), and the word's position, from 0, if it is not the
            first that is written so.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.analysis import read_senses
    >>> path = pathlib.Path(tempfile.mkdtemp(), "bank.tsv")
    >>> _ = path.write_text("bank\\triver\\tThe bank was muddy\\nbank\\tmoney\\tA bank on a bank\\t4\\n")
    >>> [(instance.word, instance.senses, instance.start) for instance in read_senses(path).instances]
    [('bank', ['river'], 1), ('bank', ['money'], 4)]

    ```
    """
    name = Path(path).name
    data = _read_xml(path) if ".data.xml" in name else _read_table(path)
    if not data.instances:
        raise ValueError(f"{path} holds no word with a sense. Expected at least one.")
    return data


def read_first_senses(path: str | os.PathLike) -> dict[str, str]:
    """The first sense of each lemma and part of speech, by WordNet's `index.sense`.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.analysis.sense_files import read_first_senses
    >>> path = pathlib.Path(tempfile.mkdtemp(), "index.sense")
    >>> _ = path.write_text("bank%1:06:00:: 02787772 9 0\\nbank%1:17:01:: 09213565 1 25\\n")
    >>> read_first_senses(path)
    {'bank NOUN': 'bank%1:17:01::'}

    ```
    """
    first: dict[str, str] = {}
    for number, line in numbered_lines(path):
        fields = line.split()
        kind = fields[0].partition("%")[2][:1] if len(fields) == 4 else ""
        if kind not in POS_OF_TYPE:
            raise ValueError(f"{path}, line {number}: {line[:60]!r} is no line of WordNet's index.sense.")
        if fields[2] == "1":
            first.setdefault(f"{fields[0].partition('%')[0]} {POS_OF_TYPE[kind]}", fields[0])
    return first


def _read_xml(path: str | os.PathLike) -> SenseData:
    keys = Path(path).with_name(Path(path).name.replace(".data.xml", ".gold.key.txt"))
    if not keys.exists():
        raise ValueError(f"{path} needs its senses beside it, {keys.name}, which is not there.")
    gold = {}
    for number, line in numbered_lines(keys):
        name, *senses = line.split()
        if not senses:
            raise ValueError(f"{keys}, line {number}: {line!r} names no sense.")
        gold[name] = senses
    data = SenseData()
    for sentence in _xml_sentences(path):
        words: list[str] = []
        for token in sentence:
            words_of_token = (token.text or "").split() or ["_"]
            if token.tag == "instance":
                name = token.attrib["id"]
                if name not in gold:
                    raise ValueError(f"{keys} has no senses of {name}, which is in {path}.")
                word = f"{token.attrib['lemma'].lower()} {token.attrib['pos']}"
                stop = len(words) + len(words_of_token)
                part = "" if DOCUMENT.match(name) else name.partition(".")[0]
                data.instances.append(SenseInstance(word, gold[name], len(data.sentences), len(words), stop, part))
            words += words_of_token
        data.sentences.append(words)
    return data


def _xml_sentences(path: str | os.PathLike) -> Iterator[ElementTree.Element]:
    try:
        with opened(path) as (file, _):
            for _, element in ElementTree.iterparse(file):
                if element.tag == "sentence":
                    yield element
                elif element.tag == "text":
                    element.clear()
    except ElementTree.ParseError as error:
        raise ValueError(f"{path} is no XML: {error}.") from None


def _read_table(path: str | os.PathLike) -> SenseData:
    data = SenseData()
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) not in (3, 4):
            raise ValueError(
                f"{path}, line {number}: {len(fields)} columns between tabs. Expected word, sense, sentence "
                "and, where needed, position."
            )
        word, sense, sentence = fields[:3]
        words = sentence.split()
        if len(fields) == 4:
            place = int(fields[3]) if fields[3].strip().isdigit() else len(words)
        else:
            folded = [other.casefold() for other in words]
            place = folded.index(word.casefold()) if word.casefold() in folded else len(words)
        if place >= len(words):
            where = f"at {fields[3]!r}" if len(fields) == 4 else f"as {word!r}"
            raise ValueError(f"{path}, line {number}: there is no word {where} in {sentence!r}.")
        data.instances.append(SenseInstance(word, [sense], len(data.sentences), place, place + 1))
        data.sentences.append(words)
    return data
