"""The verbs that use a language model: their tables against the Python calls, their help, their complaints."""

import gzip
import io
import re
import sys

import pytest
from golden_files import GOLDEN

from elmo_hf import ElmoScorer, perplexity

SENTENCES = ["The cat sat on the mat .", "I unheardof apples !", "a"]


@pytest.fixture(scope="module")
def scorer(lm_folder):
    return ElmoScorer.from_pretrained(lm_folder)


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text("\n\n".join(SENTENCES) + "\n", encoding="utf-8")
    return tmp_path / "text.txt"


def table(printed):
    return [line.split("\t") for line in printed.splitlines()]


def test_perplexity(command, lm_folder, scorer, text, tmp_path):
    (tmp_path / "more.txt.gz").write_bytes(gzip.compress(b"one more .\n"))
    code, out, _ = command("perplexity", lm_folder, tmp_path / "*.txt*")
    result = perplexity(scorer.model, scorer.tokenizer, ["one more .", *SENTENCES])
    assert code == 0 and out.strip() == str(result)
    assert re.search(rf"forward +{result.forward.perplexity:.2f} +{result.forward.perplexity_per_byte:.4f}", out)

    code, out, _ = command("perplexity", lm_folder, text, "--streams", 2, "--window", 3)
    assert out.strip() == str(perplexity(scorer.model, scorer.tokenizer, SENTENCES, streams=2, window=3))
    assert "state carried along in 2 streams, windows of 3; at the end 3 tokens dropped" in out


def test_scores(command, monkeypatch, lm_folder, scorer, text):
    code, out, _ = command("score", lm_folder, text)
    head, *rows = table(out)
    assert code == 0 and head == ["sentence", "forward", "backward", "both", "words"]
    for number, (row, score) in enumerate(zip(rows, scorer.score(SENTENCES), strict=True)):
        values = [f"{values.sum():.4f}" for values in (score.forward, score.backward, score.both)]
        assert row == [str(number + 1), *values, SENTENCES[number]]

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.read_bytes())))
    assert command("score", lm_folder)[1] == out

    head, *rows = table(command("score", lm_folder, text, "--words")[1])
    assert head == ["sentence", "forward", "backward", "both", "word"]
    assert [row[4] for row in rows[:9]] == ["<S>", *SENTENCES[0].split(), "</S>"]
    assert rows[0][1] == "0.0000" and rows[8][2] == "0.0000"
    assert rows[1][1] == f"{scorer.score(SENTENCES[0]).forward[1]:.4f}"


def test_words_that_fit(command, lm_folder, scorer):
    code, out, _ = command("substitute", lm_folder, SENTENCES[0], 1, "-k", 3)
    rows = [
        [f"{one.score:.4f}", f"{one.forward:.4f}", f"{one.backward:.4f}", one.word]
        for one in scorer.substitutes(SENTENCES[0], 1, k=3)
    ]
    assert code == 0 and table(out) == [["score", "forward", "backward", "word"], *rows]

    for options, found in (([], scorer.next_words), (["--before"], scorer.previous_words)):
        code, out, _ = command("predict", lm_folder, "the cat", "-k", 65, "--specials", *options)
        assert code == 0
        assert table(out)[1:] == [[f"{one.score:.4f}", one.word] for one in found("the cat", 65, specials=True)]


def test_tokenized_text_is_split_at_spaces_only(command, lm_folder, tmp_path):
    (tmp_path / "text.txt").write_text("the cat 's mat\n", encoding="utf-8")
    words = {}
    raw = "--splitting", "moses-en"
    for options in (raw, ("--tokenized",), ("--splitting", "whitespace")):
        rows = table(command("score", lm_folder, tmp_path / "text.txt", "--words", *options)[1])
        words[options] = [row[4] for row in rows[2:-1]]
        out = command("perplexity", lm_folder, tmp_path / "text.txt", *options)[1]
        assert f"{len(words[options])} words" in out
    assert words[raw] == ["the", "cat", "'", "s", "mat"]
    assert words[("--tokenized",)] == words[("--splitting", "whitespace")] == ["the", "cat", "'s", "mat"]
    code, _, err = command("score", lm_folder, tmp_path / "text.txt", "--tokenized", "--splitting", "moses-en")
    assert code == 1 and "--tokenized text is not split" in err


def test_help_shows_every_option(command):
    for verb, options in {
        "perplexity": ["--streams", "--window", "--batch-size", "--splitting", "--tokenized", "--errors", "--device"],
        "score": ["--words", "--batch-size", "--splitting", "--tokenized", "--errors", "--device"],
        "substitute": ["-k", "--specials", "--splitting", "--device"],
        "predict": ["--before", "-k", "--specials", "--splitting", "--device"],
    }.items():
        code, out, _ = command(verb, "--help")
        assert code == 0 and all(option in out for option in options)


def test_complaints_are_sentences(command, lm_folder, converted, text, tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "latin").write_bytes(b"fine\ncaf\xe9\n")
    without_softmax = converted(GOLDEN["plain"])
    for arguments, complaint in (
        (["perplexity", lm_folder, tmp_path / "empty"], f"Error: {tmp_path / 'empty'} contains no sentence. Expected"),
        (["score", lm_folder, tmp_path / "empty"], f"Error: {tmp_path / 'empty'} contains no sentence. Expected"),
        (["perplexity", lm_folder, tmp_path / "latin"], f"Error: {tmp_path / 'latin'}, line 2: not UTF-8"),
        (["perplexity", lm_folder, tmp_path / "nothing"], "Error: There is no file"),
        (["perplexity", lm_folder, text, "--window", 5], "Error: Invalid `window`: 5 without `streams`"),
        (
            ["perplexity", lm_folder, text, "--streams", 999],
            "Error: The text has 15 tokens in 3 sentences",
        ),
        (["perplexity", without_softmax, text], f"Error: {without_softmax} holds ElmoModel, which has no softmax"),
        (["score", without_softmax, text], f"Error: {without_softmax} holds ElmoModel, which has no softmax"),
        (["substitute", lm_folder, "a b", 2], "Error: Position 2 is not in the text, which has 2 words"),
        (["substitute", lm_folder, "", 0], "Error: Position 0 is not in the text, which has 0 words."),
    ):
        code, _, err = command(*arguments)
        assert code == 1 and complaint in err and "Traceback" not in err

    assert command("perplexity", lm_folder, tmp_path / "latin", "--errors", "replace")[0] == 0
