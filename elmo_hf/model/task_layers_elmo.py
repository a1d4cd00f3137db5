"""What compares and condenses sentences in a task's network: attention, maxout, pooling, spans."""

import torch
from torch import nn
from torch.nn import functional as F
from transformers import initialization as init

from .checks_elmo import check_labels


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Softmax over what the mask shows; zeros where it shows nothing.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.model.task_layers_elmo import masked_softmax
    >>> masked_softmax(torch.zeros(3), torch.tensor([True, True, False])).tolist()
    [0.5, 0.5, 0.0]

    ```
    """
    # Of finite numbers: a row that is masked throughout must have no NaN in its gradient.
    shown = scores.float().masked_fill(~mask, torch.finfo(torch.float32).min)
    return torch.where(mask, shown.softmax(dim), 0.0).to(scores.dtype)


def align(
    a: torch.Tensor, b: torch.Tensor, kept_a: torch.Tensor, kept_b: torch.Tensor, scores: torch.Tensor | None = None
):
    """Bidirectional attention: for each word of `a` the words of `b` that are like it, and the other way round.

    `e_ij = a_i . b_j`, or the given scores; `a~_i = sum_j softmax_j(e_ij) b_j`, `b~_j = sum_i softmax_i(e_ij) a_i`.

    Args:
        a, b: (B, M, size), (B, N, size).
        kept_a, kept_b: (B, M), (B, N), True at words.
        scores: (B, M, N) in place of the products.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.model.task_layers_elmo import align
    >>> a, b = torch.ones(1, 2, 3), torch.full((1, 4, 3), 2.0)
    >>> of_b, of_a = align(a, b, torch.ones(1, 2).bool(), torch.ones(1, 4).bool())
    >>> of_b[0, 0].tolist(), tuple(of_a.shape)
    ([2.0, 2.0, 2.0], (1, 4, 3))

    ```
    """
    scores = a @ b.transpose(1, 2) if scores is None else scores  # (B, M, N)
    both = kept_a[:, :, None] & kept_b[:, None]
    return masked_softmax(scores, both, 2) @ b, masked_softmax(scores, both, 1).transpose(1, 2) @ a


class TrilinearSimilarity(nn.Module):
    """`e_ij = w_a . a_i + w_b . b_j + (w_ab * a_i) . b_j` (Seo et al. 2017).

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.model.task_layers_elmo import TrilinearSimilarity
    >>> tuple(TrilinearSimilarity(3)(torch.zeros(2, 4, 3), torch.zeros(2, 5, 3)).shape)
    (2, 4, 5)

    ```
    """

    def __init__(self, size: int):
        super().__init__()
        self.of_a, self.of_b = nn.Linear(size, 1, bias=False), nn.Linear(size, 1, bias=False)
        self.of_both = nn.Parameter(torch.zeros(size))

    def initial_weights(self):
        init.normal_(self.of_both, 0.0, self.of_both.numel() ** -0.5)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.of_a(a) + self.of_b(b).transpose(1, 2) + (a * self.of_both) @ b.transpose(1, 2)


class BiAttention(nn.Module):
    """BiDAF's attention (Seo et al. 2017): what a passage's words find in a question, and the question in them.

    With `e` of a [`TrilinearSimilarity`]: `a_i = sum_j softmax_j(e_ij) q_j`, `m = sum_i softmax_i(max_j e_ij) p_i`;
    returned is `[p_i; a_i; p_i * a_i; m * a_i]`, (B, M, 4 * size), as in Clark and Gardner (2017).

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.model.task_layers_elmo import BiAttention
    >>> kept = torch.ones(1, 2).bool()
    >>> tuple(BiAttention(3)(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), kept, kept).shape)
    (1, 2, 12)

    ```
    """

    def __init__(self, size: int):
        super().__init__()
        self.similarity = TrilinearSimilarity(size)

    def forward(
        self, passage: torch.Tensor, question: torch.Tensor, kept: torch.Tensor, kept_question: torch.Tensor
    ) -> torch.Tensor:
        scores = self.similarity(passage, question)  # (B, M, N)
        found, _ = align(passage, question, kept, kept_question, scores)  # (B, M, size)
        best = scores.masked_fill(~kept_question[:, None], torch.finfo(scores.dtype).min).amax(2)  # (B, M)
        whole = masked_softmax(best, kept)[:, None] @ passage  # (B, 1, size)
        return torch.cat([passage, found, passage * found, whole * found], -1)


class SelfAttention(nn.Module):
    """What each word finds in the others of its own sentence: `[x_i; a_i; x_i * a_i]`, no word attending to itself.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.model.task_layers_elmo import SelfAttention
    >>> tuple(SelfAttention(3)(torch.zeros(1, 2, 3), torch.ones(1, 2).bool()).shape)
    (1, 2, 9)

    ```
    """

    def __init__(self, size: int):
        super().__init__()
        self.similarity = TrilinearSimilarity(size)

    def forward(self, x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        others = ~torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        shown = kept[:, :, None] & kept[:, None] & others  # (B, W, W)
        found = masked_softmax(self.similarity(x, x), shown) @ x
        return torch.cat([x, found, x * found], -1)


class Maxout(nn.Module):
    """`max_k (W_k x + b_k)`, for `pieces` k (Goodfellow et al. 2013).

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.model.task_layers_elmo import Maxout
    >>> tuple(Maxout(4, 3)(torch.zeros(2, 4)).shape)
    (2, 3)

    ```
    """

    def __init__(self, input_size: int, size: int, pieces: int = 4):
        super().__init__()
        self.size, self.linear = size, nn.Linear(input_size, size * pieces)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).unflatten(-1, (self.size, -1)).amax(-1)


class AttentivePooling(nn.Module):
    """`sum_t softmax_t(w . x_t) x_t`, one vector of a sentence.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.model.task_layers_elmo import AttentivePooling
    >>> AttentivePooling(2)(torch.ones(1, 3, 2), torch.tensor([[True, True, False]])).tolist()
    [[1.0, 1.0]]

    ```
    """

    def __init__(self, size: int):
        super().__init__()
        self.score = nn.Linear(size, 1)

    def forward(self, x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        return (masked_softmax(self.score(x).squeeze(-1), kept)[:, None] @ x).squeeze(1)


def max_pool(x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """The largest value of each dimension over the words, (B, size); zeros for a row without words."""
    largest = x.masked_fill(~kept[..., None], torch.finfo(x.dtype).min).amax(1)
    return torch.where(kept.any(1, keepdim=True), largest, torch.zeros_like(largest))


def mean_pool(x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """The mean over the words, (B, size); zeros for a row without words."""
    return torch.where(kept[..., None], x, torch.zeros_like(x)).sum(1) / kept.sum(1, keepdim=True).clamp(min=1)


def best_span(start: torch.Tensor, end: torch.Tensor, longest: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The span with the highest `start[i] + end[j]`, `i <= j < i + longest`.

    Args:
        start, end: (B, T), very low where no span may begin or end.

    Returns:
        (B,) firsts, (B,) lasts, (B,) scores.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.model.task_layers_elmo import best_span
    >>> first, last, score = best_span(torch.tensor([[0.0, 3.0, 1.0]]), torch.tensor([[9.0, 0.0, 2.0]]), longest=2)
    >>> first.item(), last.item(), score.item()
    (0, 0, 9.0)

    ```
    """
    length = start.shape[1]
    place = torch.arange(length, device=start.device)
    width = place[None] - place[:, None]  # (T, T), last - first
    scores = (start[:, :, None] + end[:, None]).masked_fill((width < 0) | (width >= longest), -torch.inf)
    best, flat = scores.flatten(1).max(1)
    return flat // length, flat % length, best


def spans_of(lengths: list[int], longest: int) -> torch.Tensor:
    """All spans of up to `longest` words inside of sentences: (spans, 3), sentence, first and last word.

    Example:

    ```python
    >>> from elmo_hf.model.task_layers_elmo import spans_of
    >>> spans_of([2, 1], longest=2).tolist()
    [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 0, 0]]

    ```
    """
    found = [
        (number, first, last)
        for number, length in enumerate(lengths)
        for first in range(length)
        for last in range(first, min(first + longest, length))
    ]
    return torch.tensor(found, dtype=torch.long).reshape(-1, 3)


def feed_forward(input_size: int, size: int, layers: int, dropout: float, output: int) -> nn.Sequential:
    """Linear layers with ReLU and dropout, and a linear one on top."""
    sizes = [input_size, *[size] * layers]
    hidden = [
        layer
        for before, after in zip(sizes, sizes[1:], strict=False)
        for layer in (nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout))
    ]
    return nn.Sequential(*hidden, nn.Linear(sizes[-1], output))


def nll(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Negative log likelihoods of the labels (...) under logits (..., num_labels), those of -100 left out."""
    labels = check_labels(labels, logits.shape[-1])
    chosen = labels != -100
    return F.cross_entropy(logits[chosen].float(), labels[chosen], reduction="none")


__all__ = [
    "AttentivePooling",
    "BiAttention",
    "Maxout",
    "SelfAttention",
    "TrilinearSimilarity",
    "align",
    "best_span",
    "feed_forward",
    "masked_softmax",
    "max_pool",
    "mean_pool",
    "nll",
    "spans_of",
]
