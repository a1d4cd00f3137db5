"""ElmoScorer against the formulas in NumPy, and the promises that its results keep."""

import sys

import numpy as np
import pytest
import torch
from fork_server import run_forked
from golden_files import GOLDEN
from golden_language_model import GoldenLanguageModel
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoModel, ElmoScorer, ElmoTokenizer
from elmo_hf.language_model import probabilities

PROPERTY = settings(deadline=None, max_examples=40, derandomize=True)
CHECKPOINTS = ["plain", "three-layers-no-skip", "word-input", "one-layer"]
VOCABULARY = ["<S>", "</S>", "<UNK>", "a", "b", "c", "d", "e"]
words = st.sampled_from([*VOCABULARY[3:], "naïve", "<UNK>", "zz"])
texts = st.lists(words, max_size=9)


@pytest.fixture(scope="module", params=CHECKPOINTS)
def language_model(request, tmp_path_factory):
    return GoldenLanguageModel(GOLDEN[request.param], tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def golden_scorer(language_model):
    return ElmoScorer.from_pretrained(language_model.folder, batch_size=5)


def random_scorer(bidirectional=True, **options):
    """A model whose words depend much on each other: weights are large."""
    torch.manual_seed(0)
    config = ElmoConfig(
        character_cnn_filters=[[1, 6], [2, 6]],
        projection_size=8,
        cell_size=12,
        num_highway_layers=0,
        vocab_size=len(VOCABULARY),
        bidirectional=bidirectional,
    )
    model = ElmoForPreTraining(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1, 1)
    return ElmoScorer(model, ElmoTokenizer(splitting="whitespace", word_vocabulary=VOCABULARY), **options)


SCORER = random_scorer()


def close(one, other, bound=5e-6):
    return np.abs(np.asarray(one) - np.asarray(other)).max(initial=0) <= bound


# -- against the formulas


def test_scores_are_those_of_the_formulas(language_model, golden_scorer):
    sentences = [*language_model.checkpoint.sentences, [], ["unheard", "of"]]
    scores = golden_scorer.score(sentences, is_split_into_words=True)
    for sentence, score in zip(sentences, scores, strict=True):
        forward, backward = language_model.scores(sentence)
        assert score.tokens == ["<S>", *sentence, "</S>"]
        assert close(score.forward, forward, 1e-5) and close(score.backward, backward, 1e-5)
        assert close(score.both, (forward + backward) / 2, 1e-5)
        assert score.unknown.tolist() == [token not in language_model.lines for token in score.tokens]


def test_substitutes_are_those_of_the_formulas(language_model, golden_scorer):
    sentences = language_model.checkpoint.sentences
    size = len(language_model.words)
    for position in (0, 1, -1):
        long_enough = [sentence for sentence in sentences if len(sentence) >= 2]
        places = [position % len(sentence) for sentence in long_enough]
        found = golden_scorer.substitutes(long_enough, places, size, specials=True, is_split_into_words=True)
        for sentence, place, predictions in zip(long_enough, places, found, strict=True):
            forward, backward = language_model.distributions(sentence)
            before, after = forward[place], backward[place + 2]
            logits = before + after
            together = logits - np.log(np.exp(logits).sum())
            assert sorted(one.word for one in predictions) == sorted(language_model.words)
            lines = [language_model.lines[one.word] for one in predictions]
            assert close([one.score for one in predictions], together[lines], 1e-5)
            assert close([one.forward for one in predictions], before[lines], 1e-5)
            assert close([one.backward for one in predictions], after[lines], 1e-5)
            assert np.all(np.diff([one.score for one in predictions]) <= 0)
            assert np.exp([one.score for one in predictions]).sum() == pytest.approx(1, abs=1e-5)


def test_next_and_previous_words_are_those_of_the_formulas(language_model, golden_scorer):
    sentences = [*language_model.checkpoint.sentences[:4], []]
    following = golden_scorer.next_words(sentences, 5, specials=True, is_split_into_words=True)
    previous = golden_scorer.previous_words(sentences, 5, specials=True, is_split_into_words=True)
    for sentence, one, other in zip(sentences, following, previous, strict=True):
        forward, backward = language_model.distributions(sentence)
        for predictions, expected in ((one, forward[-2]), (other, backward[1])):
            best = np.argsort(-expected)[:5]
            assert [prediction.word for prediction in predictions] == [language_model.words[line] for line in best]
            assert close([prediction.score for prediction in predictions], expected[best], 1e-5)


def test_scores_are_the_loss_of_the_model():
    sentences = ["a b c", "d a d", "e zz b"]
    batch = SCORER.tokenizer(sentences, return_tensors="pt", return_lm_labels=True)
    output = SCORER.model.eval()(**batch)
    scores = SCORER.score(sentences)
    tokens = sum(len(score.tokens) - 1 for score in scores)
    assert -sum(score.forward.sum() for score in scores) / tokens == pytest.approx(
        output.forward_loss.item(), abs=1e-5
    )
    assert -sum(score.both.sum() for score in scores) / tokens == pytest.approx(output.loss.item(), abs=1e-5)


# -- what a result depends on


@PROPERTY
@given(texts, texts, texts)
def test_no_direction_looks_at_what_it_has_yet_to_read(shared, one, other):
    first, second = SCORER.score([shared + one, shared + other], is_split_into_words=True)
    length = len(shared) + 1
    assert close(first.forward[:length], second.forward[:length])
    first, second = SCORER.score([one + shared, other + shared], is_split_into_words=True)
    assert close(first.backward[-length:], second.backward[-length:])


@PROPERTY
@given(texts, st.lists(words, min_size=1, max_size=3), texts, words)
def test_substitutes_do_not_depend_on_the_word_they_replace(left, replaced, right, other):
    place = len(left)
    results = [
        {one.word: one[1:] for one in SCORER.substitutes([*left, word, *right], place, is_split_into_words=True)}
        for word in (*replaced, other, "x" * 60, "</S>")
    ]
    for result in results[1:]:
        assert result.keys() == results[0].keys()
        assert all(close(result[word], results[0][word]) for word in result)


@pytest.mark.parametrize("distance", [1, 3, 5])
def test_substitutes_depend_on_words_far_away(distance):
    sentence, place = list("abcdeabcdea"), 5
    before = {one.word: one for one in SCORER.substitutes(sentence, place, is_split_into_words=True)}
    for side in (-1, 1):
        changed = list(sentence)
        changed[place + side * distance] = "b" if changed[place + side * distance] != "b" else "e"
        after = {one.word: one for one in SCORER.substitutes(changed, place, is_split_into_words=True)}
        assert max(abs(after[word].score - before[word].score) for word in before) > 1e-4
        # Only the direction that reads from there has changed.
        unchanged = "backward" if side == -1 else "forward"
        assert all(close(getattr(after[word], unchanged), getattr(before[word], unchanged)) for word in before)


@PROPERTY
@given(st.lists(st.lists(words, min_size=1, max_size=9), min_size=1, max_size=9), st.integers(0, 8), st.data())
def test_results_depend_on_neither_padding_nor_batch_mates(sentences, number, data):
    places = [data.draw(st.integers(0, len(sentence) - 1)) for sentence in sentences]
    number %= len(sentences)
    alone, together = (sentences[number], SCORER.score(sentences, is_split_into_words=True)[number])
    score = SCORER.score(alone, is_split_into_words=True)
    assert score.tokens == together.tokens
    assert close(score.forward, together.forward) and close(score.backward, together.backward)
    one = SCORER.substitutes(alone, places[number], is_split_into_words=True)
    other = SCORER.substitutes(sentences, places, is_split_into_words=True)[number]
    other = {prediction.word: prediction for prediction in other}
    assert all(close(prediction[1:], other[prediction.word][1:]) for prediction in one)


def test_windows_and_parts_of_the_vocabulary_change_nothing(monkeypatch):
    sentences = ["a b c d e zz a", "e", "", "b b naïve c"]

    def results():
        numbers = [np.concatenate([score.forward, score.backward]) for score in SCORER.score(sentences)]
        found = [SCORER.next_words(sentences), SCORER.previous_words(sentences)]
        found += [SCORER.substitutes([sentences[0], sentences[3]], [3, 0])]
        return [*numbers, *([one.score for one in predictions] for batch in found for predictions in batch)]

    expected = results()
    monkeypatch.setattr(probabilities, "TOKENS_AT_ONCE", 5)
    monkeypatch.setattr(probabilities, "LOGITS_AT_ONCE", 3)
    monkeypatch.setattr(probabilities, "ROWS_AT_LEAST", 2)
    assert all(close(one, other) for one, other in zip(results(), expected, strict=True))


def test_a_stream_keeps_its_order():
    scorer = random_scorer(batch_size=2)
    sentences = [" ".join("abcde"[: 1 + number % 5]) + f" {number}" for number in range(70)]
    scores = scorer.score_stream(iter(sentences))
    assert [" ".join(score.tokens[1:-1]) for score in scores] == sentences


def test_training_mode_and_gradients_stay_as_they_are():
    scorer = random_scorer()
    expected = scorer.score("a b").forward
    scorer.model.train()
    trained = [parameter.requires_grad for parameter in scorer.model.parameters()]
    assert close(scorer.score("a b").forward, expected)
    assert scorer.model.training and [parameter.requires_grad for parameter in scorer.model.parameters()] == trained


# -- one or many, strings or words


def test_one_text_gives_one_result_and_a_list_a_list():
    assert SCORER.score("a b").tokens == ["<S>", "a", "b", "</S>"]
    assert [len(score.tokens) for score in SCORER.score(["a b", "c"])] == [4, 3]
    assert SCORER.score(["a b", "c"], is_split_into_words=True).tokens == ["<S>", "a b", "c", "</S>"]
    assert len(SCORER.score([["a b", "c"]], is_split_into_words=True)) == 1
    assert SCORER.score([]) == []
    assert SCORER.score([], is_split_into_words=True).tokens == ["<S>", "</S>"]
    assert SCORER.next_words("a", k=1)[0].word == SCORER.next_words(["a"], k=1)[0][0].word
    assert len(SCORER.substitutes("a b", 1, k=2)) == 2
    assert [len(found) for found in SCORER.substitutes(["a b", "c"], np.array([1, 0]), k=2)] == [2, 2]


def test_boundaries_and_unknown_words_are_proposed_only_when_asked_for():
    for specials, expected in ((False, set(VOCABULARY[3:])), (True, set(VOCABULARY))):
        for found in (
            SCORER.next_words("a b", 99, specials),
            SCORER.previous_words("a b", 99, specials),
            SCORER.substitutes("a b", 1, 99, specials),
        ):
            assert {one.word for one in found} == expected


def test_the_tokenizer_may_split_another_way(tmp_path):
    SCORER.model.save_pretrained(tmp_path)
    ElmoTokenizer(splitting="moses-en", word_vocabulary=VOCABULARY).save_pretrained(tmp_path)
    assert ElmoScorer.from_pretrained(tmp_path).score("a,b").tokens[1:-1] == ["a", ",", "b"]
    assert ElmoScorer.from_pretrained(tmp_path, splitting="whitespace").score("a,b").tokens[1:-1] == ["a,b"]


# -- what cannot be done, in a sentence


def test_a_model_that_only_reads_forward():
    scorer = random_scorer(bidirectional=False)
    score = scorer.score("a b")
    assert score.backward is None and close(score.both, score.forward)
    assert len(scorer.next_words("a", k=3)) == 3
    for wrong in (lambda: scorer.substitutes("a b", 0), lambda: scorer.previous_words("a b")):
        with pytest.raises(ValueError, match="only reads forward"):
            wrong()


def test_models_and_tokenizers_that_are_no_language_model(converted, tmp_path):
    with pytest.raises(ValueError, match=r"plain holds ElmoModel, which has no softmax over words. Expected an"):
        ElmoScorer.from_pretrained(converted(GOLDEN["plain"]))
    model, tokenizer = SCORER.model, SCORER.tokenizer
    with pytest.raises(ValueError, match="This ElmoModel has no softmax"):
        ElmoScorer(ElmoModel(model.config), tokenizer)
    with pytest.raises(ValueError, match="tokenizer has no vocabulary"):
        ElmoScorer(model, ElmoTokenizer())
    with pytest.raises(ValueError, match="its vocabulary has 7 words, but .vocab_size. in config.json is 8"):
        ElmoScorer(model, ElmoTokenizer(word_vocabulary=VOCABULARY[:-1]))
    with pytest.raises(ValueError, match="<UNK> missing. Expected <S>, </S> and <UNK>"):
        ElmoScorer(model, ElmoTokenizer(word_vocabulary=["unk" if word == "<UNK>" else word for word in VOCABULARY]))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: SCORER.next_words("a", k=0), "Invalid `k`: 0"),
        (lambda: SCORER.substitutes("a b", 2), "Position 2 is not in the text, which has 2 words.* 0=a 1=b"),
        (lambda: SCORER.substitutes("a b", -1), "Position -1"),
        (lambda: SCORER.substitutes("", 0), "which has 0 words"),
        (lambda: SCORER.substitutes(["a", "b"], 0), "one number for one text"),
        (lambda: SCORER.substitutes(["a", "b"], [0]), "one for each text of a list"),
        (lambda: SCORER.substitutes("a", [0]), "one number for one text"),
        (lambda: SCORER.score([["a"]]), r"Invalid text: \['a'\]. Expected strings with is_split_into_words=False"),
        (lambda: SCORER.score("a b", is_split_into_words=True), "Invalid text: 'a b'. Expected lists of words"),
        (lambda: random_scorer(batch_size=0), "Invalid `batch_size`: 0"),
    ],
)
def test_mistakes_are_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_halves_are_computed_in_float32_on_a_processor(tmp_path):
    scorer = random_scorer()
    scorer.model.half().save_pretrained(tmp_path)
    scorer.tokenizer.save_pretrained(tmp_path)
    assert ElmoScorer.from_pretrained(tmp_path, device="cpu").model.dtype == torch.float32
    assert ElmoScorer.from_pretrained(tmp_path, device="cpu", dtype=torch.float16).model.dtype == torch.float16


LONG_LINE = """
import resource
from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoScorer, ElmoTokenizer
vocabulary = ["<S>", "</S>", "<UNK>", *map(str, range(5_000))]
config = ElmoConfig(character_cnn_filters=[[1, 64]], projection_size=4, cell_size=4, num_hidden_layers=1,
                    num_highway_layers=0, max_characters_per_token=10, vocab_size=len(vocabulary))
tokenizer = ElmoTokenizer("whitespace", max_characters_per_token=10, word_vocabulary=vocabulary)
scorer = ElmoScorer(ElmoForPreTraining(config), tokenizer)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
score = scorer.score(" ".join(str(number % 10_000) for number in range(100_000)))
print(len(score.tokens), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux counts it")
def test_a_line_of_100000_words_needs_little_memory():
    """All logits at once would be 4 GB, all outputs of the convolutions 0.25 GB."""
    done = run_forked(["-c", LONG_LINE])
    assert done.returncode == 0, done.stderr
    tokens, megabytes = map(int, done.stdout.split())
    assert tokens == 100_002 and megabytes < 400
