"""Makes the training text of the bundled English model, and the held-out text it is measured on.

    python examples/english/prepare.py DATA text

DATA holds the sources, each a tokenised sentence a line, an empty line between articles or novels, words as in the
1 Billion Word benchmark (`don 't`, `it 's`, `$ 2,900`). README.md beside this file lists them with their licences.

The first four sources are split first: one document in 64 is held out, and training sentences equal to a held-out one
are dropped. The other four are of the same kinds, and newer: a sentence that shares a run of ten words with held-out
text of the first four, or with WikiText-2, is dropped (Wikipedia articles live on in later revisions), and so is a
repeated sentence. One piece of 200 sentences in 256 is held out.

Every choice follows from a hash of the text itself, so that two runs make the same files.
"""

import argparse
import collections
import gzip
import hashlib
import io
import itertools
import json
import lzma
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from overlap import SHORTEST_DUPLICATE, HeldOutText, without_overlap

FIRST_SOURCES = {
    "enwik8": "lm/enwik8.sents.txt.xz",
    "openstax": "lm/openstax_ccby.sents.txt.xz",
    "litbank": "lm/litbank_novels.sents.txt.xz",
    "tatoeba": "lm/tatoeba_en.sents.txt.xz",
}
MORE_SOURCES = {
    "wiki_excellent": "lm/wiki_excellent.sents.txt.xz",
    "wiki_2014": "lm/wiki_2014.sents.txt.xz",
    "wiki_2020": "lm/wiki_2020.sents.txt.xz",
    "novels_new": "lm/novels_new.sents.txt.xz",
}
COREFERENCE = "coref/litbank_conll.tar.xz"
WIKITEXT = ("lm/wikitext-2/test.txt.gz", "lm/wikitext-2/valid.txt.gz")
FIRST_HELD_OUT, MORE_HELD_OUT = 1 / 64, 1 / 256  # share of a source's pieces
BLOCK = 200  # sentences that are held out together where a source has no short documents
SAME_BEGINNING = 10  # sentences of Tatoeba that may begin alike
# First names of Tatoeba's example sentences: sentences that differ only in them begin alike.
NAMES = set("Tom Mary Sami Layla Ziri Yanni Rima Skura John Fadil Dania Boldi Dan Linda".split())
TEST_DOCUMENTS = 10  # of LitBank's hundred, every tenth by its number in Project Gutenberg


def share(text: str) -> float:
    """A number in [0, 1) that follows from the text.

    >>> share("apple") == share("apple")
    True
    """
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big") / 2**48


def documents(path: Path) -> Iterator[list[str]]:
    """The documents of a source: sentences up to an empty line."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for filled, lines in itertools.groupby((line.rstrip("\n") for line in file), key=bool):
            if filled:
                yield list(lines)


def blocks(document: list[str]) -> Iterator[list[str]]:
    """Pieces of 200 sentences; the last may be shorter."""
    for start in range(0, len(document), BLOCK):
        yield document[start : start + BLOCK]


def test_documents(path: Path) -> dict[str, set[tuple[str, ...]]]:
    """The documents of LitBank that test coreference, and all their runs of six words."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(path.read_bytes()))) as archive:
        members = sorted(
            (member for member in archive if member.isfile() and member.name.endswith(".conll")),
            key=lambda member: int(Path(member.name).name.split("_")[0]),
        )
        tests = {}
        for member in members[:: len(members) // TEST_DOCUMENTS]:
            rows = archive.extractfile(member).read().decode().splitlines()
            words = [row.split("\t")[3] for row in rows if row and not row.startswith("#")]
            tests[Path(member.name).name] = set(zip(*(words[i:] for i in range(6)), strict=False))
    return tests


def split_novels(novels: Iterable[list[str]], tests: dict[str, set[tuple[str, ...]]]) -> tuple[list, dict[str, str]]:
    """The novels that none of the tests is of, and for each test the first sentence of its novel."""
    training, left_out = [], {}
    for novel in novels:
        words = [word for line in novel[:4000] for word in line.split()]
        runs = set(zip(*(words[i:] for i in range(6)), strict=False))
        overlap = {name: len(runs & test) / len(test) for name, test in tests.items()}
        name = max(overlap, key=overlap.get)
        if overlap[name] > 0.1:
            left_out[name] = novel[0]
        else:
            training.append(novel)
    if missing := set(tests) - set(left_out):
        raise ValueError(f"No novel was found for {sorted(missing)}: its text would be in the training text.")
    return training, left_out


def without_near_duplicates(sentences: Iterable[str]) -> Iterator[str]:
    """Sentences of Tatoeba, the first SAME_BEGINNING of those whose first three words are the same, names aside."""
    seen = collections.Counter()
    for sentence in sentences:
        beginning = tuple("NAME" if word in NAMES else word for word in sentence.split()[:3])
        seen[beginning] += 1
        if seen[beginning] <= SAME_BEGINNING:
            yield sentence


def split_first_sources(data: Path) -> tuple[dict[str, tuple[list[str], list[str]]], dict[str, str]]:
    """{source: (training sentences, held-out sentences)} of the first four sources, and the novels left out."""
    novels, left_out = split_novels(documents(data / FIRST_SOURCES["litbank"]), test_documents(data / COREFERENCE))
    tatoeba = (sentence for document in documents(data / FIRST_SOURCES["tatoeba"]) for sentence in document)
    pieces = {
        "enwik8": documents(data / FIRST_SOURCES["enwik8"]),
        "openstax": (block for book in documents(data / FIRST_SOURCES["openstax"]) for block in blocks(book)),
        "litbank": (block for novel in novels for block in blocks(novel)),
        "tatoeba": ([sentence] for sentence in without_near_duplicates(tatoeba)),
    }
    parts = {name: _split(source, FIRST_HELD_OUT) for name, source in pieces.items()}
    forbidden = {line for _, held_out in parts.values() for line in held_out if len(line.split()) > 3}
    return {
        name: ([line for line in training if line not in forbidden], held_out)
        for name, (training, held_out) in parts.items()
    }, left_out


def _split(pieces: Iterable[list[str]], held_out_share: float) -> tuple[list[str], list[str]]:
    """Training and held-out sentences: a hash of a piece's first and last sentence decides on the whole piece."""
    training, held_out = [], []
    for piece in pieces:
        (held_out if share(piece[0] + "\n" + piece[-1]) < held_out_share else training).extend(piece)
    return training, held_out


def split_more_sources(data: Path, forbidden: HeldOutText) -> Iterator[tuple[str, list[str], list[str], int]]:
    """Of each further source its name, training sentences, held-out sentences, and how many sentences were dropped."""
    seen: set[str] = set()
    for name, path in MORE_SOURCES.items():
        pieces = (block for document in documents(data / path) for block in blocks(document))
        candidates, held_out = _split(pieces, MORE_HELD_OUT)
        own, training = set(held_out), []
        for line in candidates:
            if line in own or forbidden.overlaps(line):
                continue
            if len(line.split()) >= SHORTEST_DUPLICATE:
                if line in seen:
                    continue
                seen.add(line)
            training.append(line)
        yield name, training, held_out, len(candidates) - len(training)


def prepare(data: Path, output: Path):
    """Writes train/*.txt, held-out/*.txt, held-out-mix.txt and choices.json."""
    for folder in ("train", "held-out"):
        (output / folder).mkdir(parents=True, exist_ok=True)
    counts: dict[str, Any] = {}
    first, left_out = split_first_sources(data)
    forbidden = HeldOutText()
    for name, (training, held_out) in first.items():
        counts[f"train/{name}"] = _write(output / "train" / f"{name}.txt", training)
        counts[f"held-out/{name}"] = _write(output / "held-out" / f"{name}.txt", held_out)
        forbidden.add(held_out)
    mix = [line for _, held_out in first.values() for line in held_out if share(line) < 1 / 4]
    counts["held-out-mix"] = _write(output / "held-out-mix.txt", mix)
    del first
    for path in WIKITEXT:
        with gzip.open(data / path, "rt", encoding="utf-8") as file:
            forbidden.add(file)
    for name, training, held_out, dropped in split_more_sources(data, forbidden):
        counts[f"train/{name}"] = _write(output / "train" / f"{name}.txt", training) | {"dropped": dropped}
        _write(output / "held-out" / f"{name}.txt", held_out)
    counts |= _clean_held_out(output)
    choices = {"counts": counts, "novels_left_out": left_out}
    (output / "choices.json").write_text(json.dumps(choices, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(choices, indent=2, ensure_ascii=False))


def _clean_held_out(output: Path) -> dict[str, dict[str, int]]:
    """Drops what any training text shares with the held-out text of the further sources: they overlap each other."""
    held_out = {name: _lines(output / "held-out" / f"{name}.txt") for name in MORE_SOURCES}
    training = (line for path in sorted((output / "train").glob("*.txt")) for line in _lines(path))
    clean = set(without_overlap([line for lines in held_out.values() for line in lines], training))
    return {
        f"held-out/{name}": _write(output / "held-out" / f"{name}.txt", [line for line in lines if line in clean])
        for name, lines in held_out.items()
    }


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def _write(path: Path, lines: list[str]) -> dict[str, int]:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)
    return {"sentences": len(lines), "words": sum(len(line.split()) for line in lines)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="The folder that holds lm/ and coref/.")
    parser.add_argument("output", type=Path, help="Where the text is written.")
    arguments = parser.parse_args()
    prepare(arguments.data, arguments.output)
