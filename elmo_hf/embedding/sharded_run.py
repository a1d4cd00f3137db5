"""Sharded runs: a folder of shards, one for each chunk of sentences. Shards that are there are checked and kept."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elmo_hf.atomic_files import remove_leftovers
from elmo_hf.text.inputs import Sentence

from .run_summary import RunSummary
from .sentence_chunks import Chunk
from .shard_protocol import ReadableFormat, Writer, WriterLoader, WrittenShard
from .shard_records import RECORDS, ShardRecord, read_records, remove_records
from .shards import BrokenShard, shard_name
from .store import check_notes, finished_shards, read_settings, settings_path, write_settings


@dataclass
class ShardedRun:
    """A run that writes the missing shards of a folder.

    Args:
        folder: the folder, which `begin_store` has made.
        settings: of the store, as `begin_store` returns them.
        format: of the shards.
        shard: (k, n): write only every n-th shard, from the k-th on; None for all.
        verify: compare the shards that are there with their checksums, and write damaged ones again. By default only
            headers and sizes are checked.
        summary: what the run has done so far.
    """

    folder: Path
    settings: dict[str, Any]
    format: ReadableFormat
    shard: tuple[int, int] | None = None
    verify: bool = False
    summary: RunSummary = field(default_factory=RunSummary)

    def write(
        self,
        sentences: Iterable[Sentence],
        cut: Callable[[], Iterator[Chunk]],
        writer: Writer,
        loader: WriterLoader,
        processes: int = 1,
        ray: bool | str = False,
        progress: Callable[[RunSummary], Any] | None = None,
    ) -> RunSummary:
        """Writes the missing shards, and the totals into the settings if none is missing then.

        Args:
            sentences: the input, which is counted first if it can be read twice.
            cut: returns the chunks of the input, from the first.
            writer: writes shards in this process.
            loader: loads a writer in another process.
            processes: number of processes.
            ray: write as tasks on Ray; `True` for this machine, or a cluster's address.
            progress: called with the summary before the first shard and after each.
        """
        summary = self.summary
        if progress is not None:
            if isinstance(sentences, (list, tuple)) or getattr(sentences, "repeats", False):
                summary.expected = self._count_sentences(cut())
            progress(summary)
        for made in _write_shards(writer, loader, self._missing_chunks(cut(), writer), processes, ray):
            summary.written += 1
            summary.sentences += made.sentences
            summary.words += made.words
            if progress is not None:
                progress(summary)
        summary.finished = self._finish()
        return summary

    def _is_own(self, number: int) -> bool:
        return self.shard is None or number % self.shard[1] == self.shard[0] - 1

    def _count_sentences(self, chunks: Iterator[Chunk]) -> int:
        """The number of sentences of the shards that this run has to write."""
        finished = finished_shards(self.folder, self.format.ending)
        return sum(
            len(chunk.sentences) for chunk in chunks if chunk.number not in finished and self._is_own(chunk.number)
        )

    def _missing_chunks(self, chunks: Iterator[Chunk], writer: Writer) -> Iterator[Chunk]:
        """The chunks whose shards this run has to write; the shards that are there are checked."""
        folder, summary = self.folder, self.summary
        finished = finished_shards(folder, self.format.ending)
        records = read_records(folder, self.settings, self.format.ending, max(finished, default=-1) + 1)
        for chunk in chunks:
            summary._sizes.append(len(chunk.sentences))
            summary.parts += 1
            if not self._is_own(chunk.number):
                continue
            if chunk.number not in finished:
                yield chunk
                continue
            path = folder / shard_name(chunk.number, self.format.ending)
            record = records[chunk.number]
            if self.verify and not _is_intact(path, chunk, record, writer):
                summary.damaged += 1
                yield chunk
                continue
            notes = self.format.read(path).notes
            check_notes(notes, path, chunk.number, self.settings)
            if notes["digest"] != chunk.digest():
                raise BrokenShard(
                    f"{path} was made from other sentences than those that now stand at {chunk.first:,} to "
                    f"{chunk.first + len(chunk.sentences) - 1:,}. Choose another output, or go on with the same input."
                )
            if record is not None:
                record.check_size(path)
            remove_leftovers(path)
            summary.existing += 1
        beyond = [number for number in finished if number >= summary.parts]
        if beyond:
            raise BrokenShard(
                f"{folder} has a part {max(beyond)}, but the input ends with part {summary.parts - 1}: it is another "
                "input, or not all of it. Choose another output, or go on with the same input."
            )

    def _finish(self) -> bool:
        """Writes the totals into the settings if no shard is missing."""
        folder, summary = self.folder, self.summary
        if len(finished_shards(folder, self.format.ending)) != summary.parts:
            return False
        words = 0
        for number in range(summary.parts):
            path = folder / shard_name(number, self.format.ending)
            notes = self.format.read(path).notes
            check_notes(notes, path, number, self.settings)
            words += notes["words"]
            remove_leftovers(path)
        totals = {"sentences": sum(summary._sizes), "words": words, "parts": summary._sizes}
        # Another process may have finished the store since this one read its settings.
        settings = read_settings(folder, [self.settings["format"]])
        records = read_records(folder, settings, self.format.ending, summary.parts)
        if any(records):
            totals[RECORDS] = [None if record is None else list(record) for record in records]
        if {**settings, **totals} != settings:
            write_settings(folder, {**settings, **totals})
        # One process may be killed before it renames the settings, and the next one right after its own rename.
        remove_leftovers(settings_path(folder))
        remove_records(folder)
        return True


def _is_intact(path: Path, chunk: Chunk, record: ShardRecord | None, writer: Writer) -> bool:
    """Whether a shard is as it was written. A shard of other sentences is intact: it must not be overwritten."""
    if record is None:
        return writer.is_intact(chunk)
    return record.digest != chunk.digest() or record.matches(path)


def _write_shards(
    writer: Writer, loader: WriterLoader, todo: Iterator[Chunk], processes: int, ray: bool | str
) -> Iterator[WrittenShard]:
    """Writes shards in this process, in others, or on Ray."""
    if ray:
        from .ray_tasks import write_on_ray

        yield from write_on_ray(loader, todo, None if ray is True else ray, loader.settings["threads"])
        return
    # Other processes are not for what this one can do by itself.
    first = list(itertools.islice(todo, 2)) if processes > 1 else []
    todo = itertools.chain(first, todo)
    if len(first) == 2:
        from .process_pool import write_in_processes

        yield from write_in_processes(loader, todo, processes, writer)
        return
    for chunk in todo:
        yield writer.write(chunk)
