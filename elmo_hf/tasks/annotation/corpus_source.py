"""Sentences of a corpus to annotate: any input of `SentenceSource`, and the words of CoNLL and CoNLL-U files."""

import re
from collections.abc import Iterator

from elmo_hf.text.files import numbered_lines
from elmo_hf.text.inputs import Sentence, SentenceSource, file_type

CONLL_ENDINGS = (".conll", ".conllu", ".iob", ".iob2", ".bio")


class CorpusSource(SentenceSource):
    """The sentences of an input in their order, as `SentenceSource`; of CoNLL files the words.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.tasks.annotation.corpus_source import CorpusSource
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.conll")
    >>> _ = path.write_text("Rome\\tB-LOC\\nburns\\tO\\n\\nAh\\tO\\n")
    >>> list(CorpusSource(path))
    [['Rome', 'burns'], ['Ah']]

    ```
    """

    def _read_text(self, path: str) -> Iterator[Sentence]:
        if file_type(path) not in CONLL_ENDINGS:
            yield from super()._read_text(path)
            return
        rows: list[list[str]] = []
        for _, line in numbered_lines(path, self.errors):
            if not line.strip():
                yield from self._words(rows)
                rows = []
            elif not line.startswith(("# ", "-DOCSTART-")):
                rows.append(line.split("\t") if "\t" in line else line.split())
        yield from self._words(rows)

    def _words(self, rows: list[list[str]]) -> Iterator[list[str]]:
        """The words of one sentence: column 0, or column 1 if column 0 numbers the words."""
        if not rows:
            return
        is_numbered = len(rows[0]) > 2 and all(re.fullmatch(r"\d+([-.]\d+)?", row[0]) for row in rows)
        if is_numbered:  # ranges of multiword tokens and empty nodes are no words
            yield [row[1] for row in rows if row[0].isdigit()]
        else:
            yield [row[0] for row in rows]


__all__ = ["CorpusSource"]
