"""ElmoForQuestionAnswering: where in a passage the answer to a question is."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from transformers.modeling_outputs import QuestionAnsweringModelOutput
from transformers.utils.generic import can_return_tuple

from .checks_elmo import costs_nothing_to_look_at
from .task_layers_elmo import best_span
from .task_model_elmo import ElmoTaskModel

# Of a position that is no word of the passage.
NOWHERE = -1e4


class Answer(NamedTuple):
    """An answer: its text, which is `passage[start:end]`, and its score, the sum of the logits of its ends; with
    `no_answer`, how much better it is than none. An empty text says that the passage has no answer.

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


class ElmoForQuestionAnswering(ElmoTaskModel):
    """An ELMo that answers a question by a part of a passage; `tokenizer(question, passage)` makes its input.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoForQuestionAnswering, ElmoTokenizer
    >>> sizes = dict(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> model = ElmoForQuestionAnswering(ElmoConfig(**sizes, head={"type": "bidaf", "preset": "small"})).eval()
    >>> passage = "Ann came home late, and Bob slept."
    >>> answer = model.answer(ElmoTokenizer(), "Who slept?", passage)
    >>> answer.text == passage[answer.start : answer.end]
    True

    ```
    """

    parts_rows = True

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        start_positions: torch.Tensor | None = None,
        end_positions: torch.Tensor | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        word_vector_ids: torch.Tensor | None = None,
        **keywords: Any,
    ) -> QuestionAnsweringModelOutput:
        """
        Args:
            input_ids, attention_mask, inputs_embeds, output_hidden_states, keywords: as ElmoModel takes them. A row
                is `<S> question </S> <S> passage </S>`.
            token_type_ids: (B, T), 0 in the question and 1 in the passage. Not given: it begins at the second `<S>`.
            start_positions, end_positions: (B,), the positions of the answer's first and last word; both are 0 where
                there is no answer, which a head with `no_answer` learns.
            word_vector_ids: (B, T), rows of the table of word vectors, if the head has one.

        Returns:
            `start_logits` and `end_logits` (B, T), very low elsewhere than at the passage's words. With `no_answer`,
            position 0 is scored too, and both its logits together are the score of no answer.
        """
        self.check_keywords(keywords, start_positions=start_positions, end_positions=end_positions)
        (question, passage), hidden_states = self.read(
            input_ids, attention_mask, inputs_embeds, token_type_ids, word_vector_ids, output_hidden_states, **keywords
        )
        start, end, none = self.classifier.spans(question, passage)
        start, end = (scores.float().masked_fill(~passage.words, NOWHERE) for scores in (start, end))  # (B, T)
        loss = None
        if (start_positions is None) != (end_positions is None):
            raise ValueError("Of start_positions and end_positions one is missing; accepted are both or none.")
        if start_positions is not None:
            self._check_answers(start_positions, end_positions, passage.words)
            losses = span_losses(start, end, none, start_positions, end_positions)
            loss = self.task_loss(losses, num_items_in_batch)
        if none is not None:
            start, end = (torch.cat([none[:, None].float() / 2, scores[:, 1:]], 1) for scores in (start, end))
        return QuestionAnsweringModelOutput(loss=loss, start_logits=start, end_logits=end, hidden_states=hidden_states)

    def _check_answers(self, starts: torch.Tensor, ends: torch.Tensor, words: torch.Tensor):
        for name, places in (("start_positions", starts), ("end_positions", ends)):
            if places.shape != words.shape[:1]:
                raise ValueError(
                    f"{name} has the shape {tuple(places.shape)}; accepted is one position for each of the "
                    f"{len(words)} rows."
                )
        if not costs_nothing_to_look_at(words):
            return
        for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            if start == end == 0 and self.head_settings.no_answer:
                continue
            inside = all(0 <= place < words.shape[1] and words[row, place] for place in (start, end))
            if not inside or end < start:
                accepted = "the first and the last word of an answer, positions of words of the passage"
                if self.head_settings.no_answer:
                    accepted += ", or 0 and 0 for no answer"
                raise ValueError(
                    f"Row {row} begins an answer at {start} and ends it at {end}; accepted are {accepted}."
                )

    def answer(self, tokenizer: Any, question: str, passage: str, **options: Any) -> Answer:
        """The best part of a passage for an answer; options as of [`~ElmoForQuestionAnswering.answers`]."""
        return self.answers(tokenizer, [question], [passage], **options)[0]

    @torch.no_grad()
    def answers(
        self,
        tokenizer: Any,
        questions: Sequence[str],
        passages: Sequence[str],
        longest: int = 17,
        window: int = 400,
        stride: int = 100,
        batch_size: int = 8,
    ) -> list[Answer]:
        """For each question the best part of its passage for an answer.

        Args:
            tokenizer: the model's.
            questions, passages: texts, as many passages as questions.
            longest: most words of an answer.
            window: most positions that are read at once, the question's included. A longer passage is read in
                overlapping windows.
            stride: positions that windows share.
            batch_size: windows that are read together.

        Returns:
            answers, each a slice of its passage.
        """
        if isinstance(questions, str) or isinstance(passages, str) or len(questions) != len(passages):
            raise ValueError("questions and passages are lists of texts, as many of the one as of the other.")
        found = [Answer("", 0, 0, -torch.inf)] * len(questions)
        none = [torch.inf] * len(questions)
        for begin in range(0, len(questions), batch_size):
            some = slice(begin, begin + batch_size)
            for number, first, last, score, empty in self._best(
                tokenizer, questions[some], passages[some], longest, window, stride, batch_size
            ):
                place = begin + number
                # A passage has an answer if one of its windows has.
                none[place] = min(none[place], empty)
                if score > max(found[place].score, NOWHERE):
                    found[place] = Answer(passages[place][first:last], first, last, score)
        if not self.head_settings.no_answer:
            return found
        better = [one.score - empty for one, empty in zip(found, none, strict=True)]
        return [
            one._replace(score=much) if much > 0 else Answer("", 0, 0, much)
            for one, much in zip(found, better, strict=True)
        ]

    def _best(
        self,
        tokenizer: Any,
        questions: Sequence[str],
        passages: Sequence[str],
        longest: int,
        window: int,
        stride: int,
        batch_size: int,
    ) -> Iterator[tuple[int, int, int, float, float]]:
        """Of each window its question, where its best answer is in the passage, the scores of that and of none."""
        batch, offsets, numbers = _windows(tokenizer, questions, passages, window, stride)
        for begin in range(0, len(offsets), batch_size):
            part = {name: values[begin : begin + batch_size].to(self.device) for name, values in batch.items()}
            output = self(**part)
            start, end = output.start_logits.clone(), output.end_logits.clone()
            none = start[:, 0] + end[:, 0]
            if self.head_settings.no_answer:
                start[:, 0] = end[:, 0] = NOWHERE
            found = zip(*(each.tolist() for each in (*best_span(start, end, longest), none)), strict=True)
            for row, (first, last, score, empty) in enumerate(found, begin):
                places = int(offsets[row][first][0]), int(offsets[row][last][1])
                yield numbers[row], *places, score, empty


def _windows(
    tokenizer: Any, questions: Sequence[str], passages: Sequence[str], window: int, stride: int
) -> tuple[dict[str, torch.Tensor], torch.Tensor, list[int]]:
    """Each question before each part of its passage, a row each, where every position is in the texts, and the
    questions' numbers."""
    asked = max(map(len, tokenizer(list(questions))["input_ids"]))
    if window - asked - 2 <= stride:
        raise ValueError(
            f"The question takes {asked} positions, which leaves {max(window - asked - 2, 0)} of a window of "
            f"{window} to the passage; accepted is a window that leaves more than the stride, {stride}."
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


def span_losses(
    start: torch.Tensor, end: torch.Tensor, none: torch.Tensor | None, starts: torch.Tensor, ends: torch.Tensor
) -> torch.Tensor:
    """`-log p` of each row's answer, (B,): `p(i, j) = exp(start_i + end_j) / Z`, no answer with `exp(none) / Z`.

    `Z = exp(none) + sum_i sum_j exp(start_i + end_j)` (Clark and Gardner 2017), without `none` a softmax for each end.
    """
    whole = start.logsumexp(1) + end.logsumexp(1)  # (B,)
    chosen = (scores.gather(1, places[:, None]).squeeze(1) for scores, places in ((start, starts), (end, ends)))
    gold = sum(chosen)
    if none is not None:
        whole = torch.logaddexp(whole, none.float())
        gold = torch.where((starts == 0) & (ends == 0), none.float(), gold)
    return whole - gold


ElmoForQuestionAnswering.register_for_auto_class("AutoModelForQuestionAnswering")

__all__ = ["Answer", "ElmoForQuestionAnswering", "span_losses"]
