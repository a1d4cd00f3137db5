"""Options and progress of commands that write the shards of a corpus: `elmo-hf embed` and `elmo-hf annotate`."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from elmo_hf.embedding import RunSummary


class Progress:
    """A progress bar on a terminal, else a line every half minute."""

    SECONDS_BETWEEN_LINES = 30.0

    def __init__(self):
        self.bar: Any = None
        self.last = "No part was made."

    def __call__(self, summary: "RunSummary"):
        """Shows the progress of a run."""
        if self.bar is None:
            from tqdm import tqdm

            # Seconds should be those of work, not of loading.
            self.start = self.said = time.monotonic()
            self.bar = tqdm(total=summary.expected, unit=" sentences", disable=None)
            return
        seconds = max(time.monotonic() - self.start, 1e-9)
        words = f"{summary.words / seconds:,.0f} words/s"
        self.last = f"{summary.written:,} parts were made, {summary.existing:,} were there before."
        if not self.bar.disable:
            self.bar.set_postfix_str(words, refresh=False)
            self.bar.update(summary.sentences - self.bar.n)
        elif time.monotonic() - self.said > self.SECONDS_BETWEEN_LINES:
            self.said = time.monotonic()
            rate, left = summary.sentences / seconds, ""
            if summary.expected is not None:
                left = f", {(summary.expected - summary.sentences) / rate / 60:,.1f} minutes left"
            typer.echo(f"{summary.sentences:,} sentences, {rate:,.0f} sentences/s, {words}{left}", err=True)

    def close(self):
        """Closes the progress bar."""
        if self.bar is not None:
            self.bar.close()


@contextmanager
def resumable_run(folder: Path) -> Iterator[Progress]:
    """The progress of a run that writes shards; Ctrl-C and a full disk end it with a sentence.

    Args:
        folder: where the shards are.
    """
    from elmo_hf.embedding.corpus_embedder import explain_full_disk

    progress = Progress()
    try:
        yield progress
    except KeyboardInterrupt:
        progress.close()
        typer.echo(f"Stopped. {progress.last} The same command resumes the run.", err=True)
        raise typer.Exit(130) from None
    except OSError as error:
        raise explain_full_disk(error, folder) from None
    finally:
        progress.close()


def parse_shard(text: str) -> tuple[int, int]:
    """`3/16` as (3, 16).

    Example:

    ```python
    >>> from elmo_hf.cli.corpus_run import parse_shard
    >>> parse_shard("3/16")
    (3, 16)

    ```
    """
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None:
        raise typer.BadParameter(f"--shard is {text!r}. Expected K/N, for example 3/16.")
    return int(match[1]), int(match[2])


def ray_address(ray: bool, address: str | None) -> bool | str:
    """What `--ray` and `--address` ask for: False, True for this machine, or the address of a cluster."""
    if ray:
        return address or True
    if address is not None:
        raise typer.BadParameter("--address is that of a Ray cluster and needs --ray.")
    return False
