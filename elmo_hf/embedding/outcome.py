"""What a run over a corpus did, and has still to do."""

from dataclasses import dataclass, field


@dataclass
class Outcome:
    """What a run did.

    Args:
        parts: of the whole corpus, as far as this run knows.
        here: those that were there before.
        made: those that this run made.
        sentences, words: of the parts that it made.
        expected: sentences of all parts that it has to make; None where the input can be read but once.
        finished: all parts are there and store.json says so.
    """

    parts: int = 0
    here: int = 0
    made: int = 0
    sentences: int = 0
    words: int = 0
    expected: int | None = None
    finished: bool = False
    _sizes: list[int] = field(default_factory=list, repr=False)
