"""Opens what holds vectors, whatever its form."""

import os
from pathlib import Path

from .hdf5_layouts import Hdf5Store
from .store import EmbeddingStore, PartStore


def open_store(path: str | os.PathLike) -> EmbeddingStore:
    """Opens a store of vectors for reading: a folder that `elmo-hf embed` made, or an HDF5 file of its layouts, of
    bilm-tf or of AllenNLP.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoModel, ElmoTokenizer, embed_corpus, open_store
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> embedder = ElmoEmbedder(ElmoModel(config), ElmoTokenizer())
    >>> folder = tempfile.mkdtemp() + "/vectors"
    >>> _ = embed_corpus(embedder, ["He plays .", "Rain"], folder)
    >>> [vectors.shape for vectors in open_store(folder)]
    [(3, 16), (1, 16)]

    ```

    Example:

    ```python
    >>> import h5py, numpy, tempfile
    >>> from elmo_hf import open_store
    >>> path = tempfile.mkdtemp() + "/vectors.hdf5"
    >>> with h5py.File(path, "w") as file:
    ...     file["0"] = numpy.zeros((3, 2, 16), numpy.float32)
    >>> open_store(path)[0].shape
    (3, 2, 16)

    ```
    """
    path = Path(path)
    if path.is_dir():
        return PartStore(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist; accepted are a folder or an HDF5 file of vectors.")
    return Hdf5Store(path)
