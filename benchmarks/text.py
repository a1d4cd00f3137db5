"""Natural text that every Python brings along: the language reference and the standard library's docstrings.

Sentences stay in the order of their documents, because neighbouring sentences repeat each other's words, as in any
text that somebody would embed; shuffled or invented text would be easier or harder than real work.
"""

import ast
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("asyncio", "collections", "concurrent", "email", "http", "importlib", "json", "logging", "unittest", "xml")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(])")
WORD = re.compile(r"\w+(?:[-._]\w+)*|'\w+|\.\.\.|[^\w\s]")
MARKUP = re.compile(r'["`*]+')
# Code, tables and lists of options stand in indented or marked blocks; running text does not.
CODE = re.compile(r"^(\s{3,}|>>>|\.\.\.|[-=*+|#~]{2})|::=|-->")


def read(path: Path) -> list[list[str]]:
    """The sentences of a file: one a line, words between spaces."""
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return [words for words in lines if words]


def sentences() -> list[list[str]]:
    """All sentences of this Python's documentation, each a list of words."""
    return [words for document in _documents() for words in _sentences(document)]


def _documents() -> Iterator[str]:
    try:
        from pydoc_data.topics import topics
    except ImportError:  # some systems leave it out
        topics = {}
    yield from topics.values()
    library = Path(sysconfig.get_path("stdlib"))
    files = [*sorted(library.glob("*.py"))]
    for package in PACKAGES:
        files += sorted((library / package).rglob("*.py"))
    for file in files:
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, OSError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                yield ast.get_docstring(node) or ""


def _sentences(document: str) -> Iterator[list[str]]:
    for paragraph in re.split(r"\n\s*\n", document):
        lines = paragraph.splitlines()
        if any(CODE.search(line) for line in lines):
            continue
        running = MARKUP.sub("", " ".join(line.strip() for line in lines))
        for sentence in SENTENCE_END.split(running):
            words = WORD.findall(sentence)
            # A single word or a table without words is no sentence; nor is a page.
            if 3 <= len(words) <= 120 and sum(word[0].isalpha() for word in words) * 2 > len(words):
                yield words


def frequent_words(text: list[list[str]], number: int) -> list[str]:
    """The most frequent words, the most frequent first."""
    return [word for word, _ in Counter(word for words in text for word in words).most_common(number)]


def statistics(text: list[list[str]], batch_size: int) -> tuple[float, float]:
    """Distinct words per token inside of a batch, and positions per token with padding, both with <S> and </S>."""
    distinct = tokens = positions = 0
    for start in range(0, len(text), batch_size):
        batch = text[start : start + batch_size]
        distinct += len({word for words in batch for word in words}) + 2
        tokens += sum(len(words) + 2 for words in batch)
        positions += len(batch) * (max(map(len, batch)) + 2)
    return distinct / tokens, positions / tokens
