"""Answers to questions: the best span of a passage, which is read in windows if it is long."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch


class Answer(NamedTuple):
    """An answer: its text, `passage[start:end]`, and its score, the sum of the logits of its ends, with `no_answer`
    minus the score of no answer. An empty text means that the passage has no answer.

    Example:

    ```python
    >>> from elmo_hf import Answer
    >>> Answer("Ann", 0, 3, 2.5).text
    'Ann'

    ```
    """

    text: str
    start: int
    end: int
    score: float


@torch.no_grad()
def find_answers(
    model: Any,
    tokenizer: Any,
    questions: Sequence[str],
    passages: Sequence[str],
    longest: int = 17,
    window: int = 400,
    stride: int = 100,
    batch_size: int = 8,
) -> list[Answer]:
    """The best span of each passage as the answer to its question, as `model.answers` returns it.

    Args:
        model: an ElmoForQuestionAnswering.
        tokenizer: the model's.
        questions, passages: texts, one passage for each question.
        longest: maximum number of words of an answer.
        window: maximum number of positions that are read at once, the question's included. Longer passages are read
            in overlapping windows.
        stride: number of positions by which windows overlap.
        batch_size: number of questions that are tokenized together, and of windows in a batch.
    """
    if isinstance(questions, str) or isinstance(passages, str) or len(questions) != len(passages):
        raise ValueError("Invalid `questions` and `passages`. Expected two lists of texts of the same length.")
    best = [Answer("", 0, 0, -torch.inf)] * len(questions)
    none = [torch.inf] * len(questions)
    for begin in range(0, len(questions), batch_size):
        chunk = slice(begin, begin + batch_size)
        batch, offsets, numbers = _windows(tokenizer, questions[chunk], passages[chunk], window, stride)
        spans = _best_spans(model, batch, longest, batch_size)
        for row, (first, last, score, no_answer) in enumerate(spans):
            number = begin + numbers[row]
            # A passage has an answer if one of its windows has one.
            none[number] = min(none[number], no_answer)
            if score > max(best[number].score, model.masked_score):
                start, end = int(offsets[row][first][0]), int(offsets[row][last][1])
                best[number] = Answer(passages[number][start:end], start, end, score)
    if not model.head_settings.no_answer:
        return best
    scored = [answer._replace(score=answer.score - score) for answer, score in zip(best, none, strict=True)]
    return [answer if answer.score > 0 else Answer("", 0, 0, answer.score) for answer in scored]


def _windows(
    tokenizer: Any, questions: Sequence[str], passages: Sequence[str], window: int, stride: int
) -> tuple[dict[str, torch.Tensor], torch.Tensor, list[int]]:
    """A row for each window of a passage, with its question; character offsets; the number of each row's question."""
    longest = max(map(len, tokenizer(list(questions))["input_ids"]))
    left = max(window - longest - 2, 0)
    if left <= stride:
        raise ValueError(
            f"Invalid `window`: {window}. The question takes {longest} positions, which leaves {left} to the passage; "
            f"expected more than the stride, {stride}."
        )
    batch = tokenizer(
        list(questions),
        list(passages),
        truncation="only_second",
        max_length=window,
        stride=stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_token_type_ids=True,
        padding=True,
        return_tensors="pt",
    )
    offsets = batch.pop("offset_mapping")
    return batch, offsets, [int(number) for number in batch.pop("overflow_to_sample_mapping")]


def _best_spans(
    model: Any, batch: dict[str, torch.Tensor], longest: int, batch_size: int
) -> Iterator[tuple[int, int, float, float]]:
    """The first and last position of each row's best span, its score, and that of no answer."""
    for begin in range(0, len(batch["input_ids"]), batch_size):
        inputs = {name: values[begin : begin + batch_size].to(model.device) for name, values in batch.items()}
        output = model(**inputs)
        start, end = output.start_logits.clone(), output.end_logits.clone()
        none = start[:, 0] + end[:, 0]
        if model.head_settings.no_answer:
            start[:, 0] = end[:, 0] = model.masked_score
        yield from zip(*(values.tolist() for values in (*best_span(start, end, longest), none)), strict=True)


def best_span(start: torch.Tensor, end: torch.Tensor, longest: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The span with the highest `start[i] + end[j]`, `i <= j < i + longest`.

    Args:
        start, end: (B, T), very low where no span may begin or end.

    Returns:
        (B,) firsts, (B,) lasts, (B,) scores.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.tasks.questions.answers import best_span
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


__all__ = ["Answer", "best_span", "find_answers"]
