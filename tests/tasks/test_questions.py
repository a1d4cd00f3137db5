"""Answers: spans against brute force, windows against the whole passage, slices of the text."""

import itertools

import pytest
import torch
from small_models import small

from elmo_hf import ElmoForQuestionAnswering, ElmoTokenizer
from elmo_hf.model.modeling_elmo_heads import span_losses
from elmo_hf.tasks.questions.answers import best_span

PASSAGE = "Ann-Marie came home late.  Bob, who'd slept, saw the U.S. team win in \u00dcber-Stadt; nobody cheered!"


def test_the_best_span_is_that_of_all():
    torch.manual_seed(0)
    start, end = torch.randn(20, 7), torch.randn(20, 7)
    for longest in (1, 3, 7):
        found = zip(*best_span(start, end, longest), strict=True)
        for row, (first, last, score) in enumerate(found):
            spans = [(i, j) for i, j in itertools.product(range(7), repeat=2) if i <= j < i + longest]
            expected = max(spans, key=lambda span: start[row, span[0]] + end[row, span[1]])
            assert (first, last) == expected and score == start[row, first] + end[row, last]


def test_losses_are_minus_log_of_the_share_among_all_pairs():
    torch.manual_seed(0)
    start, end, none = torch.randn(3, 5), torch.randn(3, 5), torch.randn(3)
    starts, ends = torch.tensor([1, 0, 4]), torch.tensor([3, 0, 4])
    with_none = span_losses(start, end, none, starts, ends)
    without = span_losses(start, end, None, starts, ends)
    for row in range(3):
        pairs = (start[row][:, None] + end[row]).exp()
        gold = pairs[starts[row], ends[row]]
        torch.testing.assert_close(without[row], -(gold / pairs.sum()).log())
        gold = none[row].exp() if row == 1 else gold
        torch.testing.assert_close(with_none[row], -(gold / (pairs.sum() + none[row].exp())).log())


class Finder(ElmoForQuestionAnswering):
    """Knows where the words `came` and `late` are, and finds an answer from one to the other."""

    def forward(self, input_ids, attention_mask, token_type_ids):
        words = [ElmoTokenizer().convert_ids_to_tokens(row) for row in input_ids]
        start = torch.tensor([[5.0 * (word == "came") for word in row] for row in words]) - 1e4 * (token_type_ids == 0)
        end = torch.tensor([[5.0 * (word == "late") for word in row] for row in words]) - 1e4 * (token_type_ids == 0)
        if self.head_settings.no_answer:
            start[:, 0] = end[:, 0] = 3.0
        return type("Output", (), {"start_logits": start, "end_logits": end})


@pytest.mark.parametrize("window, stride", [(400, 100), (16, 6), (14, 4)])
@pytest.mark.parametrize("no_answer", [True, False])
def test_an_answer_is_a_slice_of_the_passage_in_whatever_window(window, stride, no_answer):
    model = small(Finder, head={"no_answer": no_answer})
    passage = PASSAGE * 3
    found = model.answer(ElmoTokenizer(), "Who came late?", passage, window=window, stride=stride, batch_size=2)
    assert found.text == passage[found.start : found.end] == "came home late"
    missing = model.answer(ElmoTokenizer(), "Who came late?", "Nobody.", window=window, stride=stride)
    assert not no_answer or (missing.text == "" and missing.score == -6.0)
    longest = model.answer(ElmoTokenizer(), "Who?", passage, longest=2)
    assert len(longest.text.split()) <= 2


@pytest.mark.parametrize("no_answer", [True, False])
def test_many_questions_are_answered_as_each_alone(no_answer):
    torch.manual_seed(0)
    model = small(ElmoForQuestionAnswering, head={"type": "bidaf", "size": 4, "no_answer": no_answer})
    questions = ["Who?", "Who came home late?", "Where did the team win?", "", "When?"]
    passages = [PASSAGE, PASSAGE * 4, "Bob slept.", PASSAGE, ""]
    for batch_size in (1, 2, 8):
        options = {"window": 40, "stride": 5, "batch_size": batch_size}
        found = model.answers(ElmoTokenizer(), questions, passages, **options)
        for one, question, passage in zip(found, questions, passages, strict=True):
            alone = model.answer(ElmoTokenizer(), question, passage, window=40, stride=5)
            assert one[:3] == alone[:3] and one.score == pytest.approx(alone.score, abs=1e-4)
            assert one.text == passage[one.start : one.end]
    assert model.answers(ElmoTokenizer(), [], []) == []
    for wrong in (("Who?", "Ann."), (["Who?"], [])):
        with pytest.raises(ValueError, match="Invalid `questions` and `passages`. Expected two lists of texts"):
            model.answers(ElmoTokenizer(), *wrong)


def test_positions_that_are_not_one_for_each_row_are_refused():
    model = small(ElmoForQuestionAnswering, head={"type": "bidaf", "size": 4})
    batch, place = ElmoTokenizer()(["Who?"], ["Ann."], return_tensors="pt"), torch.tensor([5])
    assert model(**batch, start_positions=place, end_positions=place).loss > 0
    with pytest.raises(ValueError, match="Expected both `start_positions` and `end_positions`, or neither"):
        model(**batch, start_positions=place)
    with pytest.raises(ValueError, match=r"Invalid `end_positions.shape`: \(2,\). Expected \(1,\)"):
        model(**batch, start_positions=place, end_positions=torch.tensor([5, 5]))


def test_a_passage_without_words_and_a_question_too_long():
    model = small(ElmoForQuestionAnswering, head={"type": "bidaf", "size": 4})
    assert model.answer(ElmoTokenizer(), "Who?", "").text == ""
    with pytest.raises(ValueError, match="Invalid `window`: 30. The question takes 32 positions, which leaves 0"):
        model.answer(ElmoTokenizer(), "Who " * 30, "Ann.", window=30, stride=5)
    with pytest.raises(ValueError, match="Invalid `answer of row 0`: \\(0, 0\\). Expected the first and"):
        batch = ElmoTokenizer()(["Who?"], ["Ann."], return_tensors="pt")
        model(**batch, start_positions=torch.tensor([0]), end_positions=torch.tensor([0]))
