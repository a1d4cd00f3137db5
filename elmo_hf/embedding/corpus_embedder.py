"""embed_corpus: writes the vectors of any number of sentences into a store; an interrupted run is resumed."""

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from elmo_hf.atomic_files import remove_leftovers
from elmo_hf.text.inputs import Sentence, check_is_list

from .embedder import BATCH_TOKENS, ElmoEmbedder
from .output_spec import OutputSpec
from .run_summary import RunSummary
from .sentence_chunks import CHUNK_CHARACTERS, CHUNK_SENTENCES, SMALLER_CHUNKS, Chunk, chunks
from .shard_writer import (
    MAX_PROCESSES,
    ShardWriter,
    WriterSpec,
    fingerprint,
    load_embedder,
    num_processors,
    remove_states,
)
from .sharded_run import ShardedRun
from .store import FORMATS, begin_store, read_settings, settings_path

FORMAT_VERSION = 1
# One file of HDF5, written from finished shards.
LAYOUTS = ("bilm-hdf5", "allennlp-hdf5")
HDF5_SUFFIXES = (".hdf5", ".h5")
NUMPY_DTYPES = ("float32", "float16")


def embed_corpus(
    model: str | os.PathLike | ElmoEmbedder,
    sentences: Iterable[Sentence],
    output: str | os.PathLike,
    format: str | None = None,
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
    verify: bool = False,
    **arguments: Any,
) -> RunSummary:
    """Writes the vectors of sentences into a store, or goes on with it.

    The store is a folder of shards, `part-000000...`. Where a shard ends depends on the sentences only, and a shard is
    there completely or not at all: whatever ends a run, and whoever resumes it, the store will be the same.

    Args:
        model: a folder, a repository of the Hub, or an ElmoEmbedder.
        sentences: strings or lists of words.
        output: the folder of the store; for an HDF5 layout the file.
        format: `"safetensors"` or `"parquet"`; or `"bilm-hdf5"` or `"allennlp-hdf5"`, one file as those programs
            write it, which is made at the end from shards in a folder beside it. Default: `"bilm-hdf5"` if `output`
            ends in .hdf5 or .h5, else `"safetensors"`.
        layers, pooling, dtype, boundaries, batch_tokens, batch_size, stateful: as ElmoEmbedder.encode takes them.
        splitting: how strings become words. Default: as saved with the model.
        part_sentences, part_characters: the size of a shard. The first shards hold a quarter, a half and three
            quarters of the characters, so that several processes share a short text too.
        threads: of each process; the last bits of vectors may depend on it. Default: 1, or as the store was begun.
        processes: how many processes write shards; None for one for each processor, up to four.
        shard: (k, n): write only every n-th shard, from the k-th on, as one of n machines. The last of them finishes
            the store.
        ray: write the shards as tasks on Ray; `True` for this machine, or a cluster's address.
        device: as `"cuda"`; not given, a GPU if there is one.
        progress: called with the summary before the first shard and after each.
        verify: compare the files that are there with their checksums, and write damaged ones again. By default only
            headers and sizes are checked.
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
    check_is_list(sentences, "sentences", "a list of sentences; `SentenceSource(path)` reads those of a file")
    output = Path(output)
    format = _choose_format(format, output)
    layout = None if format in FORMATS else format
    _check(format, dtype, stateful, batch_tokens, batch_size, part_sentences, part_characters, processes, shard, ray)
    if not isinstance(model, ElmoEmbedder):
        embedder = load_embedder(os.fspath(model), splitting, "cpu" if ray else device, arguments)
    else:
        embedder = model
    if embedder is model and (ray or processes != 1 or splitting is not None):
        raise ValueError("With an ElmoEmbedder, parts are made in this process: give the model's name for more.")
    config = embedder.model.config
    spec = OutputSpec.from_arguments(config, layers, pooling, boundaries, dtype)
    together = (batch_size or 1) if stateful else 1
    folder = output if layout is None else output.with_name(f"{output.name}.parts")
    settings = {
        "elmo_hf_store": FORMAT_VERSION,
        "format": format if layout is None else "safetensors",
        "layout": layout,
        "model": None if isinstance(model, ElmoEmbedder) else os.fspath(model),
        "revision": getattr(config, "_commit_hash", None),
        "weights": fingerprint(embedder.model, embedder.tokenizer),
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

    damaged = 0
    if layout is not None and output.exists():
        from .hdf5_layouts import check_file

        checked = check_file(output, settings, cut(), verify)
        if checked.finished:  # perhaps killed between the rename of the file and the end
            remove_leftovers(output)
            shutil.rmtree(folder, ignore_errors=True)
            return checked
        damaged = checked.damaged
        output.unlink()
    settings = begin_store(folder, settings)
    # Whoever else makes shards may stand in another folder.
    name = os.path.abspath(settings["model"]) if os.path.exists(settings["model"] or "") else settings["model"]
    writer_spec = WriterSpec(str(name), device, arguments, os.path.abspath(folder), settings)
    run = ShardedRun(Path(folder), settings, FORMATS[settings["format"]], shard, verify, RunSummary(damaged=damaged))
    if processes is None:
        processes = 1 if stateful or embedder.model.device.type != "cpu" else min(num_processors(), MAX_PROCESSES)
    writer = ShardWriter(embedder, writer_spec)
    try:
        with _without_word_cache(embedder) if model is embedder else nullcontext():
            summary = run.write(sentences, cut, writer, writer_spec, processes, ray, progress)
        if summary.finished and layout is not None:
            from .hdf5_layouts import write_file

            write_file(folder, output)
    except (OSError, ValueError):
        if layout is None or folder.exists() or not output.exists():
            raise
        raise ValueError(
            f"{output} was finished by another process, which has removed the shards in {folder}."
        ) from None
    if summary.finished and stateful:
        remove_states(folder)
    return summary


def _choose_format(format: str | None, output: Path) -> str:
    """The format, by default that of the output's name; a folder that is called a file is refused."""
    is_file = output.suffix.lower() in HDF5_SUFFIXES
    if format is None:
        return LAYOUTS[0] if is_file else next(iter(FORMATS))
    if is_file and format in FORMATS:
        expected = f"a name without {output.suffix} for a folder of shards, or one of the formats {', '.join(LAYOUTS)}"
        raise ValueError(f"Invalid `output`: {output} with `format` {format!r}. Expected {expected}.")
    return format


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
        raise ValueError(f"Invalid `shard`: {shard[0]}/{shard[1]}. Expected 1/N to N/N.")
    if stateful and (shard is not None or ray or (processes or 1) > 1):
        raise ValueError(
            "With stateful=True every batch goes on from the one before: there is nothing that several processes, "
            "shards or machines could do at the same time. Leave them out, or stateful."
        )
    if format not in (*FORMATS, *LAYOUTS):
        raise ValueError(f"Invalid `format`: {format!r}. Expected {', '.join(map(repr, (*FORMATS, *LAYOUTS)))}.")
    dtype, held = str(dtype).removeprefix("torch."), FORMATS[format].dtypes if format in FORMATS else NUMPY_DTYPES
    if dtype not in held:
        raise ValueError(f"Invalid `dtype`: {dtype!r}. Expected {', '.join(held)} for `format` {format!r}.")
    for name, value in (
        ("part_sentences", part_sentences),
        ("part_characters", part_characters),
        ("processes", processes),
        ("batch_tokens", batch_tokens),
        ("batch_size", batch_size),
    ):
        if value is not None and value < 1:
            raise ValueError(f"Invalid `{name}`: {value}. Expected a whole number of at least 1.")


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


def threads_of(folder: Path) -> int | None:
    """The number of threads that a store was begun with."""
    return read_settings(folder)["threads"] if settings_path(folder).exists() else None


def explain_full_disk(error: OSError, folder: Path) -> OSError:
    """The error, with advice if the disk is full."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return error
    return OSError(f"{error}. The parts that are in {folder} are whole; with more room the same command goes on.")
