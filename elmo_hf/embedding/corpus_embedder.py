"""embed_corpus: writes the vectors of any number of sentences into a store; an interrupted run is resumed."""

import errno
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from elmo_hf.atomic_files import remove_leftovers
from elmo_hf.text.inputs import Sentence

from .embedder import BATCH_TOKENS, ElmoEmbedder
from .output_spec import OutputSpec
from .run_summary import RunSummary
from .sentence_chunks import CHUNK_CHARACTERS, CHUNK_SENTENCES, SMALLER_CHUNKS, Chunk, chunks
from .shard_writer import (
    MAX_PROCESSES,
    ShardWriter,
    WriterSpec,
    WrittenShard,
    fingerprint,
    load_embedder,
    num_processors,
    remove_states,
)
from .shards import BrokenShard, shard_name
from .store import FORMATS, SETTINGS, begin_store, check_notes, finished_shards, read_settings, write_settings

FORMAT_VERSION = 1
# One file of HDF5, written from finished parts.
LAYOUTS = ("bilm-hdf5", "allennlp-hdf5")
NUMPY_DTYPES = ("float32", "float16")


def embed_corpus(
    model: str | os.PathLike | ElmoEmbedder,
    sentences: Iterable[Sentence],
    output: str | os.PathLike,
    format: str = "safetensors",
    layers: str | int | Sequence[int] = "mix",
    pooling: str | None = None,
    dtype: str = "float32",
    boundaries: bool = False,
    splitting: str | None = None,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
    stateful: bool = False,
    part_sentences: int = CHUNK_SENTENCES,
    part_characters: int = CHUNK_CHARACTERS,
    threads: int | None = None,
    processes: int | None = 1,
    shard: tuple[int, int] | None = None,
    ray: bool | str = False,
    device: str | None = None,
    progress: Callable[[RunSummary], Any] | None = None,
    **arguments: Any,
) -> RunSummary:
    """Writes the vectors of sentences into a store, or goes on with it.

    The store is a folder of parts. Which sentences make a part follows from the sentences alone, and a part is
    there whole or not at all: whatever ends a run, and whoever goes on with it, the store will be the same.

    Args:
        model: a folder, a repository of the Hub, or an ElmoEmbedder.
        sentences: strings or lists of words.
        output: the folder of the store; for a layout of HDF5 the file.
        format: `"safetensors"` or `"parquet"`; or `"bilm-hdf5"` or `"allennlp-hdf5"`, one file as those programs
            write it, made at the end from parts in a folder beside it.
        layers, pooling, dtype, boundaries, batch_tokens, batch_size, stateful: as ElmoEmbedder.encode takes them.
        splitting: how strings become words; not given, as saved with the model.
        part_sentences, part_characters: how much one part holds at most; of characters the first a quarter, the second
            two and the third three, so that several processes share a short text too.
        threads: of each process; results may depend on it in their last bits. Not given: 1, or the store's.
        processes: how many make parts side by side; None for one for each processor, up to four.
        shard: (k, n): make only each n-th part, from the k-th on. When the last of all shards ends, the store is
            finished.
        ray: make the parts as tasks on Ray; `True` for this machine, or a cluster's address.
        device: as `"cuda"`; not given, a GPU if there is one.
        progress: called after each part.
        arguments: what any `from_pretrained` takes, as `revision`.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoModel, ElmoTokenizer, embed_corpus, open_store
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16))
    >>> folder = tempfile.mkdtemp() + "/vectors"
    >>> _ = embed_corpus(ElmoEmbedder(model, ElmoTokenizer()), ["It rains.", "Yes"], folder, pooling="mean")
    >>> open_store(folder)[0].shape
    (16,)

    ```
    """
    layout = None if format in FORMATS else format
    _check(format, dtype, stateful, batch_tokens, batch_size, part_sentences, part_characters, processes, shard, ray)
    embedder = model if isinstance(model, ElmoEmbedder) else None
    if embedder is None:
        embedder = load_embedder(os.fspath(model), splitting, "cpu" if ray else device, arguments)
    elif ray or processes != 1 or splitting is not None:
        raise ValueError("With an ElmoEmbedder, parts are made in this process: give the model's name for more.")
    config = embedder.model.config
    spec = OutputSpec.from_arguments(config, layers, pooling, boundaries, dtype)
    together = (batch_size or 1) if stateful else 1
    output = Path(output)
    folder = output if layout is None else output.with_name(f"{output.name}.parts")
    settings = {
        "elmo_hf_store": FORMAT_VERSION,
        "format": format if layout is None else "safetensors",
        "layout": layout,
        "model": None if isinstance(model, ElmoEmbedder) else os.fspath(model),
        "revision": getattr(config, "_commit_hash", None),
        "weights": fingerprint(embedder),
        "splitting": embedder.tokenizer.splitting,
        "layers": spec.layers if isinstance(spec.layers, str) else list(spec.layers),
        "several": spec.several,
        "pooling": pooling,
        "boundaries": boundaries,
        "dtype": spec.dtype,
        "size": config.hidden_size,
        "stateful": stateful,
        "batch_tokens": None if stateful or batch_size else batch_tokens,
        "batch_size": together if stateful else batch_size,
        "part_sentences": part_sentences,
        "part_characters": part_characters,
        "threads": threads or threads_of(folder) or 1,
        "sentences": None,
        "words": None,
        "parts": None,
    }

    def cut() -> Iterator[Chunk]:
        return chunks(sentences, part_sentences, part_characters, together, SMALLER_CHUNKS)

    if layout is not None and output.exists():
        from .hdf5_layouts import check_file

        return check_file(output, settings, cut())
    settings = begin_store(folder, settings)
    # Whoever else makes parts may stand in another folder.
    name = os.path.abspath(settings["model"]) if os.path.exists(settings["model"] or "") else settings["model"]
    writer_spec = WriterSpec(str(name), device, arguments, os.path.abspath(folder), settings)
    summary = RunSummary()
    if progress is not None:
        if isinstance(sentences, (list, tuple)) or getattr(sentences, "repeats", False):
            summary.expected = _count_sentences(cut(), folder, settings, shard)
        progress(summary)
    if processes is None:
        processes = 1 if stateful or embedder.model.device.type != "cpu" else min(num_processors(), MAX_PROCESSES)
    todo = _missing_chunks(cut(), folder, settings, shard, summary)
    for made in _write_shards(embedder, writer_spec, todo, processes, ray, model is embedder):
        summary.written += 1
        summary.sentences += made.sentences
        summary.words += made.words
        if progress is not None:
            progress(summary)
    summary.finished = _finish(folder, settings, summary)
    if summary.finished and layout is not None:
        from .hdf5_layouts import write_file

        write_file(folder, output)
    return summary


def _check(
    format: str,
    dtype: Any,
    stateful: bool,
    batch_tokens: int,
    batch_size: int | None,
    part_sentences: int,
    part_characters: int,
    processes: int | None,
    shard: tuple[int, int] | None,
    ray: bool | str,
):
    """Refuses what cannot be, before anything is loaded."""
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise ValueError(f"`shard` is {shard[0]}/{shard[1]}; accepted are 1/N to N/N.")
    if stateful and (shard is not None or ray or (processes or 1) > 1):
        raise ValueError(
            "With stateful=True every batch goes on from the one before: there is nothing that several processes, "
            "shards or machines could do at the same time. Leave them out, or stateful."
        )
    if format not in (*FORMATS, *LAYOUTS):
        raise ValueError(f"`format` is {format!r}; accepted are {', '.join(map(repr, (*FORMATS, *LAYOUTS)))}.")
    dtype, held = str(dtype).removeprefix("torch."), FORMATS[format].dtypes if format in FORMATS else NUMPY_DTYPES
    if dtype not in held:
        raise ValueError(f"`dtype` is {dtype!r}; accepted for {format} are {', '.join(held)}.")
    for name, value in (
        ("part_sentences", part_sentences),
        ("part_characters", part_characters),
        ("processes", processes),
        ("batch_tokens", batch_tokens),
        ("batch_size", batch_size),
    ):
        if value is not None and value < 1:
            raise ValueError(f"`{name}` is {value}; accepted is a whole number of at least 1.")


def _count_sentences(
    chunks: Iterator[Chunk], folder: Path, settings: dict[str, Any], shard: tuple[int, int] | None
) -> int:
    """The number of sentences of the shards that this run has to write."""
    finished = finished_shards(folder, FORMATS[settings["format"]])
    return sum(
        len(chunk.sentences) for chunk in chunks if chunk.number not in finished and _in_share(shard, chunk.number)
    )


def _in_share(shard: tuple[int, int] | None, number: int) -> bool:
    return shard is None or number % shard[1] == shard[0] - 1


def _write_shards(
    embedder: ElmoEmbedder,
    writer_spec: WriterSpec,
    todo: Iterator[Chunk],
    processes: int,
    ray: bool | str,
    given: bool,
) -> Iterator[WrittenShard]:
    """Writes shards in this process, in others, or on Ray."""
    if ray:
        from .ray_tasks import write_on_ray

        yield from write_on_ray(writer_spec, todo, None if ray is True else ray, writer_spec.settings["threads"])
        return
    # Other processes are not for what this one can do by itself.
    first = list(itertools.islice(todo, 2)) if processes > 1 else []
    todo = itertools.chain(first, todo)
    if len(first) == 2:
        from .process_pool import write_in_processes

        yield from write_in_processes(writer_spec, todo, processes, embedder)
        return
    with _without_word_cache(embedder) if given else nullcontext():
        writer = ShardWriter(embedder, writer_spec)
        for chunk in todo:
            yield writer.write(chunk)


@contextmanager
def _without_word_cache(embedder: ElmoEmbedder) -> Iterator[None]:
    """Switches the word cache off: cached words would change the last bits of the next shard."""
    encoder = embedder.model.token_encoder
    bytes_ = getattr(encoder, "bytes_of_words", 0)
    try:
        if bytes_:
            embedder.model.cache_words(0)
        yield
    finally:
        if bytes_:
            embedder.model.cache_words(megabytes=bytes_ / 2**20)


def _missing_chunks(
    found: Iterator[Chunk],
    folder: Path,
    settings: dict[str, Any],
    shard: tuple[int, int] | None,
    summary: RunSummary,
) -> Iterator[Chunk]:
    """The chunks whose shards this run has to write; the shards that are there are checked."""
    format = FORMATS[settings["format"]]
    here = finished_shards(folder, format)
    for chunk in found:
        summary._sizes.append(len(chunk.sentences))
        summary.parts += 1
        if not _in_share(shard, chunk.number):
            continue
        if chunk.number not in here:
            yield chunk
            continue
        path = folder / shard_name(chunk.number, format.ending)
        notes = format.read(path).notes
        check_notes(notes, path, chunk.number, settings)
        if notes["digest"] != chunk.digest():
            raise BrokenShard(
                f"{path} was made from other sentences than those that now stand at {chunk.first:,} to "
                f"{chunk.first + len(chunk.sentences) - 1:,}. Choose another output, or go on with the same input."
            )
        remove_leftovers(path)
        summary.existing += 1
    beyond = [number for number in here if number >= summary.parts]
    if beyond:
        raise BrokenShard(
            f"{folder} has a part {max(beyond)}, but the input ends with part {summary.parts - 1}: it is another "
            "input, or not all of it. Choose another output, or go on with the same input."
        )


def _finish(folder: Path, settings: dict[str, Any], summary: RunSummary) -> bool:
    """Writes the totals into store.json if no shard is missing."""
    format = FORMATS[settings["format"]]
    if len(finished_shards(folder, format)) != summary.parts:
        return False
    words = 0
    for number in range(summary.parts):
        path = folder / shard_name(number, format.ending)
        notes = format.read(path).notes
        check_notes(notes, path, number, settings)
        words += notes["words"]
        remove_leftovers(path)
    totals = {"sentences": sum(summary._sizes), "words": words, "parts": summary._sizes}
    if {**settings, **totals} != settings:
        write_settings(folder, {**settings, **totals})
    if settings["stateful"]:
        remove_states(folder)
    return True


def threads_of(folder: Path) -> int | None:
    """The number of threads that a store was begun with."""
    return read_settings(folder)["threads"] if (folder / SETTINGS).exists() else None


def explain_full_disk(error: OSError, folder: Path) -> OSError:
    """The error, with advice if the disk is full."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return error
    return OSError(f"{error}. The parts that are in {folder} are whole; with more room the same command goes on.")
