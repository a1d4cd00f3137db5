"""Summary of a run of `embed_corpus`."""

from dataclasses import dataclass, field


@dataclass
class RunSummary:
    """What a run of `embed_corpus` did, and what is still to do.

    Args:
        parts: the number of shards of the whole corpus, as far as this run knows.
        existing: the shards that were there before.
        written: the shards that this run wrote.
        sentences, words: of the shards that it wrote.
        damaged: the shards among them that were there before, but damaged (with `verify`).
        expected: sentences of all shards that it has to write; None if the input can be read only once.
        finished: all shards are there, and the settings of the store say so.
    """

    parts: int = 0
    existing: int = 0
    written: int = 0
    sentences: int = 0
    words: int = 0
    damaged: int = 0
    expected: int | None = None
    finished: bool = False
    _sizes: list[int] = field(default_factory=list, repr=False)
