"""Makes the training text of the bundled English model, and the held-out text it is measured on.

    python examples/english/prepare.py DATA text

DATA holds the four sources, each a tokenised sentence a line, an empty line between articles or novels, words as in
the 1 Billion Word benchmark (`don 't`, `it 's`, `$ 2,900`), and the coreference documents of LitBank:

    lm/enwik8.sents.txt.xz           Wikipedia of March 2006     GFDL / CC BY-SA 3.0
    lm/openstax_ccby.sents.txt.xz    OpenStax textbooks          CC BY 4.0
    lm/litbank_novels.sents.txt.xz   LitBank's novels            public domain (US)
    lm/tatoeba_en.sents.txt.xz       Tatoeba                     CC BY 2.0 FR
    coref/litbank_conll.tar.xz       LitBank's coreference       CC BY 4.0 (only to know which novels to leave out)

Every choice follows from a hash of the text itself, so that two runs make the same files.
"""

import argparse
import collections
import hashlib
import io
import itertools
import json
import lzma
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

SOURCES = {
    "enwik8": "lm/enwik8.sents.txt.xz",
    "openstax": "lm/openstax_ccby.sents.txt.xz",
    "litbank": "lm/litbank_novels.sents.txt.xz",
    "tatoeba": "lm/tatoeba_en.sents.txt.xz",
}
COREFERENCE = "coref/litbank_conll.tar.xz"
HELD_OUT = 1 / 64  # of each source
BLOCK = 200  # sentences that are held out together where a source has no short documents
SAME_BEGINNING = 10  # sentences of Tatoeba that may begin alike
NAMES = {
    "Tom",
    "Mary",
    "Sami",
    "Layla",
    "Ziri",
    "Yanni",
    "Rima",
    "Skura",
    "John",
    "Fadil",
    "Dania",
    "Boldi",
    "Dan",
    "Linda",
}
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
    for start in range(0, len(document), BLOCK):
        yield document[start : start + BLOCK]


def test_documents(path: Path) -> dict[str, set[tuple[str, ...]]]:
    """The documents of LitBank that test coreference, and all their runs of six words."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(path.read_bytes()))) as archive:
        members = sorted(
            (one for one in archive if one.isfile() and one.name.endswith(".conll")),
            key=lambda one: int(Path(one.name).name.split("_")[0]),
        )
        found = {}
        for member in members[:: len(members) // TEST_DOCUMENTS]:
            rows = archive.extractfile(member).read().decode().splitlines()
            words = [row.split("\t")[3] for row in rows if row and not row.startswith("#")]
            found[Path(member.name).name] = set(zip(*(words[i:] for i in range(6)), strict=False))
    return found


def novels_of(novels: Iterable[list[str]], tests: dict[str, set[tuple[str, ...]]]) -> tuple[list, dict[str, str]]:
    """The novels that none of the tests is of, and for each test the first sentence of its novel."""
    kept, left_out = [], {}
    for novel in novels:
        words = [word for line in novel[:4000] for word in line.split()]
        runs = set(zip(*(words[i:] for i in range(6)), strict=False))
        overlap = {name: len(runs & test) / len(test) for name, test in tests.items()}
        name = max(overlap, key=overlap.get)
        if overlap[name] > 0.1:
            left_out[name] = novel[0]
        else:
            kept.append(novel)
    if missing := set(tests) - set(left_out):
        raise ValueError(f"No novel was found for {sorted(missing)}: its text would be in the training text.")
    return kept, left_out


def without_near_duplicates(sentences: Iterable[str]) -> Iterator[str]:
    """Sentences of Tatoeba, the first SAME_BEGINNING of those whose first three words are the same, names aside."""
    seen = collections.Counter()
    for sentence in sentences:
        beginning = tuple("NAME" if word in NAMES else word for word in sentence.split()[:3])
        seen[beginning] += 1
        if seen[beginning] <= SAME_BEGINNING:
            yield sentence


def prepare(data: Path, output: Path):
    """Writes train/*.txt, held-out/*.txt, held-out-mix.txt and choices.json."""
    for folder in ("train", "held-out"):
        (output / folder).mkdir(parents=True, exist_ok=True)
    novels, left_out = novels_of(documents(data / SOURCES["litbank"]), test_documents(data / COREFERENCE))
    (sentence for document in documents(data / SOURCES["tatoeba"]) for sentence in document)
    pieces = {
        "enwik8": documents(data / SOURCES["enwik8"]),
        "openstax": (block for one in documents(data / SOURCES["openstax"]) for block in blocks(one)),
        "litbank": (block for novel in novels for block in blocks(novel)),
        "tatoeba": (
            [one] for one in without_near_duplicates(s for d in documents(data / SOURCES["tatoeba"]) for s in d)
        ),
    }
    split = {name: ([], []) for name in pieces}
    for name, source in pieces.items():
        for piece in source:
            split[name][share(piece[0] + "\n" + piece[-1]) < HELD_OUT].append(piece)

    forbidden = {line for _, held in split.values() for piece in held for line in piece if len(line.split()) > 3}
    counts = {}
    for name, (train, held) in split.items():
        train = [[line for line in piece if line not in forbidden] for piece in train]
        for folder, chosen in (("train", train), ("held-out", held)):
            text = "".join(line + "\n" for piece in chosen for line in piece)
            (output / folder / f"{name}.txt").write_text(text, encoding="utf-8")
            counts[f"{folder}/{name}"] = {"sentences": text.count("\n"), "words": len(text.split())}
    mix = [line for _, held in split.values() for piece in held for line in piece if share(line) < 1 / 4]
    (output / "held-out-mix.txt").write_text("".join(line + "\n" for line in mix), encoding="utf-8")
    counts["held-out-mix"] = {"sentences": len(mix), "words": sum(len(line.split()) for line in mix)}
    choices = {"counts": counts, "novels_left_out": left_out}
    (output / "choices.json").write_text(json.dumps(choices, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(choices, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="The folder that holds lm/ and coref/.")
    parser.add_argument("output", type=Path, help="Where the text is written.")
    arguments = parser.parse_args()
    prepare(arguments.data, arguments.output)
