"""annotate_corpus: labels any number of sentences and writes one file; an interrupted run is resumed."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo_hf.atomic_files import remove_leftovers, write_atomically
from elmo_hf.embedding.run_summary import RunSummary
from elmo_hf.embedding.sentence_chunks import CHUNK_CHARACTERS, CHUNK_SENTENCES, SMALLER_CHUNKS, Chunk, chunks
from elmo_hf.embedding.shard_protocol import WrittenShard
from elmo_hf.embedding.shard_writer import MAX_PROCESSES, fingerprint, num_processors, use_threads
from elmo_hf.embedding.sharded_run import ShardedRun
from elmo_hf.embedding.shards import BrokenShard, shard_name
from elmo_hf.embedding.store import begin_store, store_name
from elmo_hf.tasks.annotation.annotator import BATCH_TOKENS, ElmoAnnotator
from elmo_hf.tasks.annotation.formats import FORMATS
from elmo_hf.text.inputs import Sentence, check_is_list

FORMAT_VERSION = 1


@dataclass(frozen=True)
class AnnotatorLoader:
    """What another process needs to write shards."""

    model: tuple[str, ...]
    device: str | None
    folder: str
    settings: dict[str, Any]
    arguments: dict[str, Any]

    def load(self) -> "AnnotationWriter":
        """A writer with models of its own."""
        return AnnotationWriter(ElmoAnnotator.from_pretrained(*self.model, device=self.device, **self.arguments), self)


class AnnotationWriter:
    """Writes the annotations of chunks of sentences as shards."""

    def __init__(self, annotator: ElmoAnnotator, loader: AnnotatorLoader):
        self.annotator, self.settings, self.folder = annotator, loader.settings, Path(loader.folder)
        self.device = annotator.device
        self.format = FORMATS[self.settings["format"]]

    def write(self, chunk: Chunk) -> WrittenShard:
        """Annotates the sentences of a chunk and writes its shard."""
        with use_threads(self.settings["threads"]):
            annotations = self.annotator.annotate(chunk.sentences, self.settings["batch_tokens"])
        words = sum(len(annotation.words) for annotation in annotations)
        notes = {
            "part": chunk.number,
            "first": chunk.first,
            "sentences": len(annotations),
            "words": words,
            "digest": chunk.digest(),
            "store": store_name(self.settings),
        }
        path = self.folder / shard_name(chunk.number, self.format.ending)
        write_atomically(path, lambda temporary: self.format.write(temporary, notes, annotations))
        return WrittenShard(chunk.number, len(annotations), words)

    def is_intact(self, chunk: Chunk) -> bool:
        """Whether the shard of a chunk can be read. One of other sentences can: it must not be overwritten."""
        try:
            self.format.read(self.folder / shard_name(chunk.number, self.format.ending))
        except BrokenShard:
            return False
        return True


def annotate_corpus(
    models: str | os.PathLike | Sequence[str | os.PathLike],
    sentences: Iterable[Sentence],
    output: str | os.PathLike,
    format: str | None = None,
    batch_tokens: int = BATCH_TOKENS,
    part_sentences: int = CHUNK_SENTENCES,
    part_characters: int = CHUNK_CHARACTERS,
    threads: int = 1,
    processes: int | None = 1,
    shard: tuple[int, int] | None = None,
    ray: bool | str = False,
    device: str | None = None,
    progress: Callable[[RunSummary], Any] | None = None,
    **arguments: Any,
) -> RunSummary:
    """Labels sentences with fine-tuned models and writes them into a file.

    Shards are written into a folder beside the file, `OUTPUT.parts`, which is removed when the file is finished. A
    shard depends on its own sentences only: whatever interrupts a run, the same call resumes it and the file has the
    same bytes.

    Args:
        models: a fine-tuned model, or several; those with the same frozen biLM share what it computes.
        sentences: strings or lists of words.
        output: the file.
        format: `"conll"`, `"jsonl"`, `"parquet"` or `"html"`. Default: by the ending of the file's name.
        batch_tokens: tokens, padding included, that are read at one time.
        part_sentences, part_characters: the size of a shard.
        threads: of each process.
        processes: how many processes write shards; None for one for each processor, up to four.
        shard: (k, n): write only every n-th shard, from the k-th on, as one of n machines. The last of them finishes
            the file.
        ray: write the shards as tasks on Ray; `True` for this machine, or a cluster's address.
        device: as `"cuda"`. Default: a GPU if there is one.
        progress: called with the summary before the first shard and after each.
        arguments: what any `from_pretrained` takes, as `revision`.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf import annotate_corpus
    >>> path = pathlib.Path(tempfile.mkdtemp(), "labels.conll")
    >>> annotate_corpus("english-ner", ["She lives in Rome ."], path).words
    5
    >>> len(path.read_text().split())  # words and labels
    10

    ```
    """
    check_is_list(sentences, "sentences", "a list of sentences; `SentenceSource(path)` reads those of a file")
    output, names = Path(output), [models] if isinstance(models, (str, os.PathLike)) else list(models)
    format = _check(output, format, processes, shard, batch_tokens, part_sentences, part_characters, threads)
    folder = output.with_name(f"{output.name}.parts")
    if output.exists():
        if folder.exists():  # killed between the rename of the file and the end
            remove_leftovers(output)
            shutil.rmtree(folder)
            return RunSummary(finished=True)
        raise ValueError(f"{output} is there already. Expected a new file, or remove it.")
    annotator = ElmoAnnotator.from_pretrained(*names, device="cpu" if ray else device, **arguments)
    settings = {
        "elmo_hf_annotations": FORMAT_VERSION,
        "format": format,
        "model": [os.fspath(name) for name in names],
        "names": [*annotator.models],
        "weights": [_fingerprint(labeler) for labeler in annotator.models.values()],
        "splitting": annotator.tokenizer.splitting,
        "batch_tokens": batch_tokens,
        "part_sentences": part_sentences,
        "part_characters": part_characters,
        "threads": threads,
        "sentences": None,
        "words": None,
        "parts": None,
    }

    def cut() -> Iterator[Chunk]:
        return chunks(sentences, part_sentences, part_characters, rising=SMALLER_CHUNKS)

    settings = begin_store(folder, settings, FORMATS, "annotations")
    paths = tuple(os.path.abspath(name) if os.path.exists(name) else os.fspath(name) for name in names)
    loader = AnnotatorLoader(paths, "cpu" if ray else device, os.path.abspath(folder), settings, arguments)
    if processes is None:
        processes = min(num_processors(), MAX_PROCESSES) if annotator.device.type == "cpu" else 1
    run = ShardedRun(folder, settings, FORMATS[format], shard)
    summary = run.write(sentences, cut, AnnotationWriter(annotator, loader), loader, processes, ray, progress)
    if summary.finished:
        shards = [folder / shard_name(number, FORMATS[format].ending) for number in range(summary.parts)]
        if not shards:
            raise ValueError("The input holds no sentences.")
        write_atomically(output, lambda temporary: FORMATS[format].join(shards, temporary))
        shutil.rmtree(folder)
    return summary


def _check(output: Path, format: str | None, processes: int | None, shard: tuple[int, int] | None, *sizes: int) -> str:
    """Refuses what cannot be before anything is loaded; returns the name of the format."""
    chosen = format or output.suffix.removeprefix(".").lower()
    if chosen not in FORMATS:
        where = f"`format`: {format!r}" if format else f"`output`: {str(output)!r}"
        raise ValueError(f"Invalid {where}. Expected {', '.join(FORMATS)}, as the format or the ending of the file.")
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise ValueError(f"Invalid `shard`: {shard[0]}/{shard[1]}. Expected 1/N to N/N.")
    if (processes is not None and processes < 1) or min(sizes) < 1:
        raise ValueError(
            "Invalid sizes: expected whole numbers of at least 1 for processes, threads, batches and parts."
        )
    return chosen


def _fingerprint(labeler: Any) -> str:
    """A digest of everything that labels depend on."""
    weights = fingerprint(labeler.model, labeler.tokenizer)
    return f"{weights} {store_name({'labels': labeler.model.config.id2label, 'head': labeler.model.config.head})}"


__all__ = ["annotate_corpus"]
