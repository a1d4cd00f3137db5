"""LinearChainCrf: labels that depend on their neighbours, and the rules of BIO and BIOES."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from transformers import initialization as init

from elmo_hf.tasks.encoders import gather_rows, scatter_rows, word_order

IMPOSSIBLE = -1e4
# Of the path that was chosen, so that the largest value of each position is on it, also among equals.
CHOSEN = 1e-3


class LinearChainCrf(nn.Module):
    """`p(y | e) = exp(start[y_1] + sum_t e_t[y_t] + sum_t transitions[y_(t-1), y_t] + end[y_n]) / Z(e)`.

    Positions that are masked, wherever they are, are no part of the chain: the one before and the one after are
    neighbours.

    Args:
        num_labels: number of labels.
        names: the labels' names. Where they are in a scheme, BIO or BIOES, decoding keeps its rules.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf import LinearChainCrf
    >>> crf = LinearChainCrf(3, ["O", "B-LOC", "I-LOC"])
    >>> emissions = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.0, 3.0]]])  # I-LOC alone would be best at the second word
    >>> crf.decode(emissions).tolist()
    [[1, 2]]

    ```
    """

    def __init__(self, num_labels: int, names: Sequence[str] | None = None):
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(num_labels, num_labels))
        self.start, self.end = nn.Parameter(torch.zeros(num_labels)), nn.Parameter(torch.zeros(num_labels))
        # As arrays: a buffer that is not saved would be empty after from_pretrained.
        self.rules = None if names is None else label_rules(names)

    def initial_weights(self):
        """Initializes the weights."""
        for parameter in (self.transitions, self.start, self.end):
            init.normal_(parameter, 0.0, 0.1)

    def log_likelihood(
        self, emissions: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """`log p(labels | emissions)` of each row, (B,); 0 for a row without positions.

        Args:
            emissions: (B, T, num_labels).
            labels: (B, T); what stands at masked positions does not matter.
            mask: (B, T), any; None for all.
        """
        emissions, present, index = _compact(emissions, mask)  # (B, W, N), (B, W)
        labels = labels.gather(1, index).masked_fill(~present, 0)
        return self._score(emissions, labels, present) - self._partition(emissions, present)

    def _score(self, emissions: torch.Tensor, labels: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        emitted = emissions.gather(2, labels[..., None]).squeeze(2)  # (B, W)
        emitted = torch.where(present, emitted, 0.0).sum(1)
        steps = torch.where(present[:, 1:], self.transitions.float()[labels[:, :-1], labels[:, 1:]], 0.0).sum(1)
        last = labels.gather(1, (present.sum(1, keepdim=True) - 1).clamp(min=0)).squeeze(1)  # (B,)
        ends = self.start.float()[labels[:, 0]] + self.end.float()[last]
        return torch.where(present[:, 0], emitted + steps + ends, 0.0)

    def _partition(self, emissions: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        transitions, steps = self.transitions.float(), emissions.unbind(1)
        alpha = self.start.float() + steps[0]  # (B, N)
        for step in range(1, len(steps)):
            following = torch.logsumexp(alpha[:, :, None] + transitions, 1) + steps[step]
            alpha = torch.where(present[:, step, None], following, alpha)
        return torch.where(present[:, 0], torch.logsumexp(alpha + self.end.float(), 1), 0.0)

    def decode(self, emissions: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """The best labels that the rules allow, (B, T); 0 at masked positions."""
        scores = self.best_scores(emissions, mask)
        return scores.argmax(-1)

    def best_scores(self, emissions: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """For each position and label how much worse the best allowed sequence through it is than the best of all.

        Returns:
            (B, T, num_labels), at most 0, and the largest at each position is the label of the best sequence: an
            argmax decodes, a softmax says how sure it is. Zeros at masked positions.
        """
        return best_scores(emissions, mask, self.transitions.float(), self.start.float(), self.end.float(), self.rules)


@torch.no_grad()
def best_scores(
    emissions: torch.Tensor,
    mask: torch.Tensor | None,
    transitions: torch.Tensor,
    start: torch.Tensor,
    end: torch.Tensor,
    rules: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
) -> torch.Tensor:
    """[`LinearChainCrf.best_scores`] of any scores of transitions (N, N), of the first and of the last label (N,)."""
    length = emissions.shape[1]
    emissions, present, index = _compact(emissions, mask)  # (B, W, N)
    if rules is not None:
        allowed = (torch.from_numpy(rule).to(emissions.device) for rule in rules)
        transitions, start, end = (
            scores.masked_fill(~rule, -torch.inf)
            for scores, rule in zip((transitions, start, end), allowed, strict=True)
        )
    forward, pointers = [start + emissions[:, 0]], []
    same = torch.arange(emissions.shape[2], device=emissions.device).expand_as(forward[0])
    for step in range(1, emissions.shape[1]):
        best, pointer = (forward[-1][:, :, None] + transitions).max(1)  # (B, N)
        is_word = present[:, step, None]
        forward.append(torch.where(is_word, best + emissions[:, step], forward[-1]))
        pointers.append(torch.where(is_word, pointer, same))
    backward = [end.expand_as(forward[0])]
    for step in range(emissions.shape[1] - 1, 0, -1):
        after = (transitions + (emissions[:, step] + backward[-1])[:, None]).amax(2)  # (B, N)
        backward.append(torch.where(present[:, step, None], after, end))
    through = torch.stack(forward, 1) + torch.stack(backward[::-1], 1)  # (B, W, N)
    best, label = (forward[-1] + end).max(1)  # (B,)
    path = [label]
    for pointer in reversed(pointers):
        path.append(pointer.gather(1, path[-1][:, None]).squeeze(1))
    scores = (through - best[:, None, None]).clamp(IMPOSSIBLE, 0.0)
    scores = scores.scatter(2, torch.stack(path[::-1], 1)[..., None], CHOSEN)
    return scatter_rows(scores, present, index, length)


def label_rules(names: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """What may follow what (N, N), begin (N,) and end (N,) under the scheme of the names; None if they have none.

    BIO: `I-X` goes on with `B-X` or `I-X`. BIOES also: an entity of several words ends with `E-X`, and `S-X` is one
    of a single word.

    Example:

    ```python
    >>> from elmo_hf.tasks.tagging.crf import label_rules
    >>> follows, begins, ends = label_rules(["O", "B-X", "I-X"])
    >>> follows.astype(int).tolist(), begins.tolist()
    ([[1, 1, 0], [1, 1, 1], [1, 1, 1]], [True, True, False])

    ```
    """
    marks = [name.partition("-")[::2] for name in names]
    kinds = {mark for mark, _ in marks}
    if not kinds <= set("BIOES") or "B" not in kinds or "I" not in kinds:
        return None
    if any(bool(entity) == (mark == "O") for mark, entity in marks):
        return None
    whole = bool(kinds & {"E", "S"})  # an entity must be ended

    def follows(before: tuple[str, str], after: tuple[str, str]) -> bool:
        is_open, goes_on = before[0] in "BI", after[0] in "IE"
        if goes_on:
            return is_open and before[1] == after[1]
        return not (whole and is_open)

    between = np.array([[follows(before, after) for after in marks] for before in marks])
    begins = np.array([mark not in "IE" for mark, _ in marks])
    ends = np.array([not (whole and mark in "BI") for mark, _ in marks])
    return between, begins, ends


def _compact(emissions: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The unmasked positions of each row, moved to the left; in float32, which sums of many scores need."""
    if mask is None:
        mask = torch.ones(emissions.shape[:2], dtype=torch.bool, device=emissions.device)
    index, present = word_order(mask.bool())
    return gather_rows(emissions.float(), index, present), present, index


__all__ = ["LinearChainCrf", "best_scores", "label_rules"]
