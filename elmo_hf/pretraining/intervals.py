"""Intervals: numbers of steps or times, parsed from and formatted as text."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A number of steps or of seconds."""

    steps: int = 0
    seconds: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Interval":
        """Reads `"500"` as steps, and `"10min"`, `"30s"` or `"2h"` as time.

        Example:

        ```python
        >>> from elmo_hf.pretraining.intervals import Interval
        >>> Interval.parse("500"), Interval.parse("10min")
        (Interval(steps=500, seconds=0.0), Interval(steps=0, seconds=600.0))

        ```
        """
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h)?\s*", text)
        number = float(match[1]) if match else 0.0
        if match is None or not number or (match[2] is None and not number.is_integer()):
            raise ValueError(f"{text!r}. Expected steps, e.g. 500, or a time, e.g. 30s, 10min or 2h.")
        if match[2] is None:
            return cls(steps=int(number))
        return cls(seconds=number * {"s": 1, "min": 60, "h": 3600}[match[2]])

    def is_over(self, steps: int, seconds: float) -> bool:
        """Whether the interval is over after these steps and seconds."""
        return steps >= self.steps > 0 or seconds >= self.seconds > 0


def duration(seconds: float) -> str:
    """Formats seconds as hours, minutes and seconds.

    Example:

    ```python
    >>> from elmo_hf.pretraining.intervals import duration
    >>> duration(3725)
    '1:02:05'

    ```
    """
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
