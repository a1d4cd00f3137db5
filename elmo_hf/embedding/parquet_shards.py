"""Parts as Parquet, a row for each sentence, which `datasets` and all the others load.

Columns: `sentence` (its number), `text`, `words`, and `vectors`: a list of vectors (words, size), with several layers
a list of such lists (layers, words, size); pooled, the vector itself, or one for each layer.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from .shards import NOTES, BrokenShard, Shard, ShardFormat, notes_text, read_notes, starts_of

# To read one sentence, a row group is read.
ROWS_OF_GROUP = 32


def write(path: Path, shard: Shard):
    """Writes a shard to a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    first, texts = shard.notes["first"], shard.texts
    columns = {
        "sentence": pa.array(range(first, first + len(shard.words)), pa.int64()),
        "text": pa.array(texts if texts is not None else [" ".join(words) for words in shard.words]),
        "words": pa.array(shard.words, pa.list_(pa.string())),
        "vectors": _vectors_column(shard),
    }
    table = pa.table(columns).replace_schema_metadata({NOTES: notes_text(shard.notes)})
    names = ("text", "words.list.element")
    pq.write_table(
        table,
        path,
        row_group_size=ROWS_OF_GROUP,
        compression="zstd",
        compression_level=1,
        use_dictionary=list(names),
        write_statistics=False,
        write_page_checksum=True,
        use_byte_stream_split=_leaf(table.schema.field("vectors").type),
    )


def _leaf(kind: Any) -> list[str]:
    """The full name of the column of numbers inside of lists: its bytes are stored by place, which packs better."""
    import pyarrow as pa

    name = "vectors"
    while pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        name, kind = f"{name}.list.element", kind.value_type
    return [name]


def _vectors_column(shard: Shard) -> Any:
    """Numbers of all sentences behind each other, inside of as many lists as there are axes."""
    import pyarrow as pa

    several, pooled = shard.notes["several"], shard.notes["pooled"]
    size = shard.vectors[0].shape[2]
    flat = torch.cat([vectors.reshape(-1) for vectors in shard.vectors]).numpy()
    column = pa.FixedSizeListArray.from_arrays(pa.array(flat), size)
    lengths = [vectors.shape[1] for vectors in shard.vectors]
    if not pooled:
        layers = shard.vectors[0].shape[0]
        starts = starts_of(np.repeat(lengths, layers) if several else lengths)
        column = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), column)
    if several:
        column = pa.FixedSizeListArray.from_arrays(column, shard.vectors[0].shape[0])
    return column


class Reader:
    """An open shard; only the row groups of the sentences asked for are read."""

    def __init__(self, path: Path):
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        try:
            self._file = pq.ParquetFile(path, page_checksum_verification=True)
        except (pa.ArrowException, OSError) as error:
            raise BrokenShard.because(f"{path} is damaged, or no Parquet file", error) from None
        metadata = self._file.schema_arrow.metadata or {}
        self.notes = read_notes(metadata.get(NOTES.encode()), path)

    def vectors(self, start: int, stop: int) -> list[np.ndarray]:
        """The vectors (layers, rows, size) of each sentence from `start` to `stop`."""
        import pyarrow as pa

        layers, size, arrays = self.notes["layers"], self.notes["size"], []
        for lists in self._column("vectors", start, stop):
            numbers = lists.values
            while not pa.types.is_floating(numbers.type):
                numbers = numbers.flatten()
            rows = len(numbers) // (layers * size)
            arrays.append(numbers.to_numpy().reshape(layers, rows, size))
        return arrays

    def words(self, start: int, stop: int) -> list[list[str]]:
        """The words of each sentence from `start` to `stop`."""
        return self._column("words", start, stop).to_pylist()

    def texts(self, start: int, stop: int) -> list[str]:
        """The text of each sentence from `start` to `stop`."""
        return self._column("text", start, stop).to_pylist()

    def _column(self, name: str, start: int, stop: int) -> Any:
        import pyarrow as pa

        if stop <= start:
            return pa.array([])
        groups = range(start // ROWS_OF_GROUP, (stop - 1) // ROWS_OF_GROUP + 1)
        try:
            column = self._file.read_row_groups(list(groups), columns=[name]).column(0)
        except (pa.ArrowException, OSError) as error:
            raise BrokenShard.because(f"{self.path} is damaged", error) from None
        offset = start - groups[0] * ROWS_OF_GROUP
        return column.slice(offset, stop - start).combine_chunks()


PARQUET = ShardFormat("parquet", ".parquet", ("float32", "float16"), write, Reader)
