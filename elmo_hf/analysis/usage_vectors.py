"""Contextual vectors of sampled uses: each drawn sentence is embedded once, whatever number of targets it has."""

from collections.abc import Sequence

import numpy as np
from tqdm import tqdm

from .layer_reader import LayerReader
from .usage_sampling import UsageSample

Layer = str | int


def embed_uses(
    reader: LayerReader, samples: Sequence[UsageSample], layer: Layer = "top", progress: bool = False
) -> list[dict[str, np.ndarray]]:
    """The vectors of all sampled uses.

    Args:
        reader: of the model.
        samples: of each corpus.
        layer: `"top"`, `"average"`, `"mix"` or a layer index.
        progress: show a progress bar.

    Returns:
        For each corpus the vectors (uses, hidden_size) of each target, in the order of its uses.
    """
    results: list[dict[str, np.ndarray]] = []
    # Uses of one sentence share its list of words, which is how they find each other.
    sentences = [{id(use.words): use.words for uses in s.uses.values() for use in uses} for s in samples]
    total = sum(map(len, sentences))
    with tqdm(total=total, unit=" sentences", desc="embedding", disable=None if progress else True) as bar:
        for sample, of_sample in zip(samples, sentences, strict=True):
            vectors = {
                name: np.empty((len(uses), reader.size), np.float32) for name, uses in sample.uses.items() if uses
            }
            rows: dict[int, list[tuple[np.ndarray, int, int]]] = {}
            for name, uses in sample.uses.items():
                for row, use in enumerate(uses):
                    rows.setdefault(id(use.words), []).append((vectors[name], row, use.position))
            layers = reader.embedder.encode(iter(of_sample.values()), layers=layer, show_progress=False)
            for key, values in zip(of_sample, layers, strict=True):
                for array, row, position in rows[key]:
                    array[row] = values[position]
                bar.update()
            results.append(vectors)
    return results
