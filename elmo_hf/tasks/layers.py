"""Layers of the networks of tasks: attention, maxout, attentive pooling, feed-forward networks."""

import torch
from torch import nn
from transformers import initialization as init


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Softmax over what the mask shows; zeros where it shows nothing.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.tasks.layers import masked_softmax
    >>> masked_softmax(torch.zeros(3), torch.tensor([True, True, False])).tolist()
    [0.5, 0.5, 0.0]

    ```
    """
    # Of finite numbers: a row that is masked throughout must have no NaN in its gradient.
    shown = scores.float().masked_fill(~mask, torch.finfo(torch.float32).min)
    return torch.where(mask, shown.softmax(dim), 0.0).to(scores.dtype)


def align(
    a: torch.Tensor, b: torch.Tensor, mask_a: torch.Tensor, mask_b: torch.Tensor, scores: torch.Tensor | None = None
):
    """Bidirectional attention: for each word of `a` the words of `b` that are like it, and the other way round.

    `e_ij = a_i . b_j`, or the given scores; `a~_i = sum_j softmax_j(e_ij) b_j`, `b~_j = sum_i softmax_i(e_ij) a_i`.

    Args:
        a, b: (B, M, size), (B, N, size).
        mask_a, mask_b: (B, M), (B, N), True at words.
        scores: (B, M, N) in place of the products.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.tasks.layers import align
    >>> a, b = torch.ones(1, 2, 3), torch.full((1, 4, 3), 2.0)
    >>> of_b, of_a = align(a, b, torch.ones(1, 2).bool(), torch.ones(1, 4).bool())
    >>> of_b[0, 0].tolist(), tuple(of_a.shape)
    ([2.0, 2.0, 2.0], (1, 4, 3))

    ```
    """
    scores = a @ b.transpose(1, 2) if scores is None else scores  # (B, M, N)
    both = mask_a[:, :, None] & mask_b[:, None]
    return masked_softmax(scores, both, 2) @ b, masked_softmax(scores, both, 1).transpose(1, 2) @ a


class TrilinearSimilarity(nn.Module):
    """`e_ij = w_a . a_i + w_b . b_j + (w_ab * a_i) . b_j` (Seo et al. 2017).

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.tasks.layers import TrilinearSimilarity
    >>> tuple(TrilinearSimilarity(3)(torch.zeros(2, 4, 3), torch.zeros(2, 5, 3)).shape)
    (2, 4, 5)

    ```
    """

    def __init__(self, size: int):
        super().__init__()
        self.of_a, self.of_b = nn.Linear(size, 1, bias=False), nn.Linear(size, 1, bias=False)
        self.of_both = nn.Parameter(torch.zeros(size))

    def initial_weights(self):
        """Initializes the weights."""
        init.normal_(self.of_both, 0.0, self.of_both.numel() ** -0.5)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return self.of_a(a) + self.of_b(b).transpose(1, 2) + (a * self.of_both) @ b.transpose(1, 2)


class BiAttention(nn.Module):
    """BiDAF's attention (Seo et al. 2017): what a passage's words find in a question, and the question in them.

    With `e` of a [`TrilinearSimilarity`]: `a_i = sum_j softmax_j(e_ij) q_j`, `m = sum_i softmax_i(max_j e_ij) p_i`;
    returned is `[p_i; a_i; p_i * a_i; m * a_i]`, (B, M, 4 * size), as in Clark and Gardner (2017).

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.tasks.layers import BiAttention
    >>> mask = torch.ones(1, 2).bool()
    >>> tuple(BiAttention(3)(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), mask, mask).shape)
    (1, 2, 12)

    ```
    """

    def __init__(self, size: int):
        super().__init__()
        self.similarity = TrilinearSimilarity(size)

    def forward(
        self, passage: torch.Tensor, question: torch.Tensor, mask: torch.Tensor, mask_question: torch.Tensor
    ) -> torch.Tensor:
        """See the class."""
        scores = self.similarity(passage, question)  # (B, M, N)
        attended, _ = align(passage, question, mask, mask_question, scores)  # (B, M, size)
        best = scores.masked_fill(~mask_question[:, None], torch.finfo(scores.dtype).min).amax(2)  # (B, M)
        whole = masked_softmax(best, mask)[:, None] @ passage  # (B, 1, size)
        return torch.cat([passage, attended, passage * attended, whole * attended], -1)


class SelfAttention(nn.Module):
    """What each word finds in the others of its own sentence: `[x_i; a_i; x_i * a_i]`, no word attending to itself.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.tasks.layers import SelfAttention
    >>> tuple(SelfAttention(3)(torch.zeros(1, 2, 3), torch.ones(1, 2).bool()).shape)
    (1, 2, 9)

    ```
    """

    def __init__(self, size: int):
        super().__init__()
        self.similarity = TrilinearSimilarity(size)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """See the class."""
        others = ~torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        shown = mask[:, :, None] & mask[:, None] & others  # (B, W, W)
        attended = masked_softmax(self.similarity(x, x), shown) @ x
        return torch.cat([x, attended, x * attended], -1)


class Maxout(nn.Module):
    """`max_k (W_k x + b_k)`, for `pieces` k (Goodfellow et al. 2013).

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.tasks.layers import Maxout
    >>> tuple(Maxout(4, 3)(torch.zeros(2, 4)).shape)
    (2, 3)

    ```
    """

    def __init__(self, input_size: int, size: int, pieces: int = 4):
        super().__init__()
        self.size, self.linear = size, nn.Linear(input_size, size * pieces)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return self.linear(x).unflatten(-1, (self.size, -1)).amax(-1)


class AttentivePooling(nn.Module):
    """`sum_t softmax_t(w . x_t) x_t`, one vector of a sentence.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.tasks.layers import AttentivePooling
    >>> AttentivePooling(2)(torch.ones(1, 3, 2), torch.tensor([[True, True, False]])).tolist()
    [[1.0, 1.0]]

    ```
    """

    def __init__(self, size: int):
        super().__init__()
        self.score = nn.Linear(size, 1)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return (masked_softmax(self.score(x).squeeze(-1), mask)[:, None] @ x).squeeze(1)


def feed_forward(input_size: int, size: int, layers: int, dropout: float, output: int) -> nn.Sequential:
    """Linear layers with ReLU and dropout, and a linear one on top."""
    sizes = [input_size, *[size] * layers]
    hidden = [
        layer
        for before, after in zip(sizes, sizes[1:], strict=False)
        for layer in (nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout))
    ]
    return nn.Sequential(*hidden, nn.Linear(sizes[-1], output))


__all__ = [
    "AttentivePooling",
    "BiAttention",
    "Maxout",
    "SelfAttention",
    "TrilinearSimilarity",
    "align",
    "feed_forward",
    "masked_softmax",
]
