"""The maxima of character filters by the library in C, for inference in float32."""

from collections.abc import Sequence
from functools import partial

import torch
from torch.nn import functional as F

from .native import Library
from .native.calls import FeaturesCall
from .native_product import LARGE, in_full_panels, in_words, run_ranges
from .onednn import new_rows


def join_filters(weights: Sequence[torch.Tensor], width: int) -> torch.Tensor:
    """Weights (n, E, w) -> one for windows of `width` characters, (F, width * E), zero where a filter ends."""
    joined = []
    for weight in weights:
        # A transposed dimension of size 1 would give the gradient other strides than the weight has, which
        # DistributedDataParallel reports and copies at every step.
        by_character = weight if weight.shape[2] == 1 else weight.transpose(1, 2)
        joined.append(F.pad(by_character.flatten(1), (0, (width - weight.shape[2]) * weight.shape[1])))
    return torch.cat(joined)


class NativeFilters:
    """Character filters as the library reads them.

    Args:
        weights: (n, E, w) of the filters of each width.
        biases: (n,) of each.
        library: the library.
    """

    def __init__(self, weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor], library: Library):
        self.library, self.width = library, max(weight.shape[2] for weight in weights)
        joined = join_filters(weights, self.width).detach()
        self.filters, panel = len(joined), 4 * library.lanes
        self.panels = in_words(in_full_panels(joined, library.lanes).unflatten(0, (-1, 4, library.lanes)), "float32")
        missing = -self.filters % panel
        self.bias = F.pad(torch.cat(list(biases)).detach(), (0, missing))
        # Words of each panel before its widest filter ends.
        depths = torch.cat([torch.full((len(w),), w.shape[1] * w.shape[2], dtype=torch.int32) for w in weights])
        self.depths = F.pad(depths, (0, missing)).unflatten(0, (-1, panel)).amax(1)

    def __call__(self, characters: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Vectors of characters (U, C, E) and the windows of each word (U,) -> maxima with their biases (U, F)."""
        words, length, size = characters.shape
        characters, counts = characters.contiguous(), counts.to(torch.int32)
        y = new_rows(self.bias[None], words, self.filters)
        parts = {"counts": counts, "depths": self.depths, "panels": self.panels, "bias": self.bias}
        pointers = {name: part.data_ptr() for name, part in {**parts, "characters": characters, "y": y}.items()}
        sizes = {"words": words, "length": length, "size": size, "width": self.width, "filters": self.filters}
        call = partial(FeaturesCall, **sizes, **pointers)
        threads = torch.get_num_threads() if y.numel() * self.width * size >= LARGE else 1
        run_ranges(self.library, call, self.filters, 4 * self.library.lanes, threads)
        return y
