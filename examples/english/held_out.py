"""The texts that the bundled model is measured on, in words: its own held-out text, and WikiText-2."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

# WikiText's mark for a word that its makers left out. It is read like any word, but nobody is asked to predict it.
LEFT_OUT = "<unk>"
MIX = "held-out-mix"
WIKITEXT = "wikitext-2"


def held_out_texts(text: Path, wikitext: Path | None = None) -> dict[str, Path]:
    """Names and files: the mix, each source's held-out text, and WikiText-2's test file if it is given."""
    texts = {MIX: text / f"{MIX}.txt"}
    texts |= {path.stem: path for path in sorted((text / "held-out").glob("*.txt"))}
    return texts | ({WIKITEXT: wikitext} if wikitext else {})


def sentences_of(path: Path) -> Iterator[list[str]]:
    """The words of each sentence of a text; they stand between spaces, as in the text of training."""
    for line in _adapted_lines(path) if ".gz" in path.suffixes else _lines(path):
        if words := line.split():
            yield words


def _lines(path: Path) -> Iterator[str]:
    with open(path, encoding="utf-8") as file:
        yield from file


def _adapted_lines(path: Path) -> Iterator[str]:
    """WikiText's paragraphs as sentences a line, its `@-@`, `@,@` and `@.@` undone; headings are left out.

    >>> import gzip, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "test.txt.gz"
    >>> _ = path.write_bytes(gzip.compress(b" = A heading = \\n A well @-@ known <unk> . It cost 2 @,@ 000 . \\n"))
    >>> list(_adapted_lines(path))
    ['A well-known <unk> .', 'It cost 2,000 .']
    """
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            line = re.sub(r" @([-,.])@ ", r"\1", line).strip()
            if line and not re.fullmatch(r"=.*=", line):
                yield from re.split(r"(?<= [.!?]) (?=[^a-z ])", line)
