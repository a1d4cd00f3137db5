"""Whole runs: from text to a model that loads, tuning in its three ways, and what is wrong with what was given."""

import json
import os
import re
import subprocess
import sys
from functools import partial

import pytest
import torch
from datasets import Dataset
from small_texts import SIZES, lines
from transformers import set_seed

from elmo_hf import (
    ElmoConfig,
    ElmoForPreTraining,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
    cli,
    perplexity,
)
from elmo_hf.pretraining import Settings, pretrain
from elmo_hf.pretraining.model_initialization import with_words

LINES = lines(60)
DOMAIN = [line.replace("cat", "enzyme").replace("dog", "protein") for line in LINES]


def pretrain_lines(parent, lines, name="run", **settings):
    """Pretrains a small model on lines; gives its folder, the perplexities, and what was said."""
    (parent / "config.json").write_text(json.dumps(SIZES))
    path = parent / f"{name}.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    said = []
    default = {"files": [str(path)], "size": str(parent / "config.json"), "min_count": 1, "batch_size": 4}
    default |= {"unroll_steps": 5, "epochs": 2, "held_out": [str(path)]}
    result = pretrain(Settings(parent / name, **{**default, **settings}), say=said.append)
    return parent / name, result, "\n".join(said)


@pytest.fixture
def run(tmp_path):
    """`pretrain_lines` in a folder of the test."""
    return partial(pretrain_lines, tmp_path)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A model to tune, trained once."""
    return pretrain_lines(tmp_path_factory.mktemp("base"), LINES, "base", epochs=10)[0]


def load(folder):
    return ElmoForPreTraining.from_pretrained(folder), ElmoTokenizer.from_pretrained(folder)


def test_from_text_to_a_model(run):
    folder, found, said = run(LINES)
    model, tokenizer = load(folder)
    assert tokenizer.word_vocabulary[:3] == ["<S>", "</S>", "<UNK>"] and tokenizer.splitting == "whitespace"
    assert found["after"] < found["before"]
    assert perplexity(model, tokenizer, LINES).perplexity == pytest.approx(found["after"], rel=1e-5)
    assert re.search(r"vocabulary: 14 lines; the corpus has 11 different words in .* 100\.00% are in", said)
    assert "from word frequencies alone" in said and f"before: {found['before']:.1f}, after:" in said
    assert ElmoModel.from_pretrained(folder).config.vocab_size == 14
    assert ElmoForTokenClassification.from_pretrained(folder, num_labels=2).config.num_labels == 2


def test_what_the_card_says(run):
    folder, found, said = run(LINES, corpus_name="Cats and dogs", license="cc0-1.0", language="en", held_out=[])
    card = (folder / "README.md").read_text()
    assert "license: cc0-1.0" in card and "Trained by `elmo-hf pretrain` on Cats and dogs: " in card
    assert f"held out, over all 14 words: {found['after']:.1f}." in card and "split by whitespace" in card
    assert str(folder.parent) not in card and "unfinished" not in card
    kept = folder.with_name(f"{folder.name}.run")
    assert not any(path.is_dir() for path in folder.iterdir()), "the model and nothing else"
    assert kept.stat().st_mode & 0o077 == 0 and (kept / "corpus").is_dir()
    tuned = run(DOMAIN, "tuned", start=str(folder), extend_vocab=True)[0]
    card = (tuned / "README.md").read_text()
    assert "license: cc0-1.0" in card and "Cats and dogs" in card and f"from {folder.name} on tuned.txt" in card


def test_a_tokenised_text_is_recognized_and_read_as_it_is(run):
    lines = [f"{line} ( it 's ) ." for line in LINES]
    folder, found, said = run(lines, "tokenised")
    assert "the text looks tokenised, and its words are taken as they stand between spaces" in said
    model, tokenizer = load(folder)
    assert tokenizer.splitting == "moses-en" and {"'s", "it"} <= set(tokenizer.word_vocabulary)
    assert tokenizer.tokenize("(it's).") == ["(", "it", "'s", ")", "."]
    measured = perplexity(model, tokenizer, [line.split() for line in lines])
    assert measured.perplexity == pytest.approx(found["after"], rel=1e-5)
    assert "split by whitespace" in (folder / "README.md").read_text()
    assert "raw text will be split by: moses-en (it makes the same words of 100% of the sentences)" in said


def test_chinese_text_is_split_into_characters(run):
    """No word between spaces occurs three times in such a text, but most characters do."""
    lines = [f"{'我爱北京的秋天'[k % 3 :]}，{'你也喜欢吗'[k % 2 :]}？{k}" for k in range(60)]
    folder, _, said = run(lines, "chinese", min_count=3, epochs=1)
    tokenizer = load(folder)[1]
    assert "splitting: characters (100% of the letters are of scripts without spaces)" in said
    assert tokenizer.splitting == "characters" and {"我", "，", "喜"} <= set(tokenizer.word_vocabulary)


@pytest.mark.slow
def test_a_model_that_is_worse_than_word_frequencies_is_reported(run):
    said = run(LINES, "short", stop_after="1")[2]
    assert "worse than word frequencies alone" in said and "(--minutes)" in said
    assert "worse than" not in run(LINES, "long", epochs=30, learning_rate=0.02)[2]


def test_a_dataset_on_disk(run, tmp_path):
    Dataset.from_dict({"body": ["\n".join(LINES[:30]), "\n".join(LINES[30:])]}).save_to_disk(tmp_path / "data")
    expected = run(LINES, "files")[1]
    found = run(LINES, "set", files=[], dataset=str(tmp_path / "data"), column="body")[1]
    assert found == expected


def test_words_as_input(run, tmp_path):
    config = {**SIZES, "word_input": True, "vocab_size": 5, "share_embedding_softmax": True}
    (tmp_path / "words.json").write_text(json.dumps(config))
    folder, found, _ = run(LINES, size=str(tmp_path / "words.json"), num_sampled=4)
    assert found["after"] < found["before"]
    assert load(folder)[0].config.vocab_size == 14
    extended, _, said = run(DOMAIN, "extended", start=str(folder), extend_vocab=True)
    assert "new words: 2" in said and load(extended)[1].word_input


def test_tuning_with_the_vocabulary_kept(run, base):
    folder, found, said = run(DOMAIN, "tuned", start=str(base))
    assert found["after"] < found["before"]
    assert load(folder)[1].word_vocabulary == load(base)[1].word_vocabulary


def test_tuning_with_the_vocabulary_extended(run, base):
    folder, found, said = run(DOMAIN, "tuned", start=str(base), extend_vocab=True)
    before, after = load(base)[1].word_vocabulary, load(folder)[1].word_vocabulary
    assert after[: len(before)] == before and set(after[len(before) :]) == {"enzyme", "protein"}
    assert "new words: 2" in said and found["after"] < found["before"]


@pytest.mark.parametrize("settings", [{}, {"word_input": True}, {"word_input": True, "share_embedding_softmax": True}])
def test_kept_rows_stay_bit_for_bit_and_new_ones_share_what_unknown_had(settings):
    set_seed(0)
    words = ["<S>", "</S>", "<UNK>", "a", "b"]
    model = ElmoForPreTraining(ElmoConfig(**SIZES, vocab_size=5, **settings)).eval()
    torch.nn.init.normal_(model.softmax.bias)
    counts = torch.tensor([9, 9, 9, 9, 9, 3, 1]).numpy()
    extended = with_words(model, words, [*words, "c", "d"], counts).eval()
    kept, grown = model.state_dict(), extended.state_dict()
    assert kept.keys() == grown.keys()
    for name, table in kept.items():
        assert torch.equal(grown[name][: len(table)], table), name
    x = torch.randn(8)
    old, new = model.softmax(x).exp(), extended.softmax(x).exp()
    torch.testing.assert_close(new[:5], old)
    torch.testing.assert_close(new[5:], old[2] * torch.tensor([0.75, 0.25]))


def test_a_vocabulary_in_another_order_takes_what_was_known_of_its_words(run, base, tmp_path):
    set_seed(0)
    words = ["<S>", "</S>", "<UNK>", "a", "b"]
    model = ElmoForPreTraining(ElmoConfig(**SIZES, vocab_size=5)).eval()
    changed = with_words(model, words, ["<S>", "</S>", "<UNK>", "c", "b"], torch.tensor([9, 9, 9, 9, 9]).numpy())
    x = torch.randn(8)
    old, new = model.softmax(x), changed.softmax(x)
    torch.testing.assert_close(new, old[[0, 1, 2, 2, 4]])
    folder, found, _ = run(DOMAIN, "tuned", start=str(base), new_vocab=True)
    assert "enzyme" in load(folder)[1].word_lines and found["after"] < found["before"]
    start = tmp_path / "start"
    load(base)[0].save_pretrained(start)
    load(base)[1].save_pretrained(start)
    same, _, _ = run(
        DOMAIN,
        "kept",
        start=str(start),
        vocabulary=str(start / "word_vocabulary.txt"),
        new_vocab=True,
        stop_after="1",
        learning_rate=1e-12,
    )
    for (name, value), other in zip(
        load(same)[0].state_dict().items(), load(base)[0].state_dict().values(), strict=True
    ):
        torch.testing.assert_close(value, other, msg=name)


def test_tuning_a_model_without_softmax(run, base, tmp_path):
    body = ElmoModel.from_pretrained(base)
    body.config.vocab_size = 0
    body.save_pretrained(tmp_path / "body")
    ElmoTokenizer("whitespace", max_characters_per_token=12).save_pretrained(tmp_path / "body")
    with pytest.raises(ValueError, match="has no vocabulary to predict words of. Expected --new-vocab"):
        run(DOMAIN, "refused", start=str(tmp_path / "body"))
    start = str(tmp_path / "body")
    frozen, _, _ = run(DOMAIN, "frozen", start=start, new_vocab=True, freeze_steps=5, stop_after="5")
    for name, value in ElmoModel.from_pretrained(frozen).state_dict().items():
        assert torch.equal(value, body.state_dict()[name]), name
    tuned, found, _ = run(DOMAIN, "tuned", start=start, new_vocab=True, freeze_steps=5)
    assert found["after"] < found["before"] and "enzyme" in load(tuned)[1].word_lines
    assert not load(tuned)[0].config.freeze_bilm


def test_wrong_settings_are_explained(run, base, tmp_path):
    for message, settings in {
        "either FILES or a --dataset": {"dataset": "x"},
        "Invalid --optimizer: 'sgd'. Expected one of adagrad, adamw": {"optimizer": "sgd"},
        "Invalid --stop-after: '5parsecs'. Expected steps": {
            "stop_after": "5parsecs",
            "files": ["unread"],
        },
        "Invalid --report-to: 'foo'. Expected an installed integration": {"report_to": ["foo"]},
        "Invalid --schedule: 'wsd'. Expected one of constant, linear, cosine": {"schedule": "wsd"},
        "Invalid --epochs: nan. Expected a number above 0": {"epochs": float("nan")},
        "Invalid --epochs: inf. Expected": {"epochs": float("inf")},
        "Invalid --learning-rate: -1. Expected": {"learning_rate": -1},
        "Invalid --keep: 0. Expected a number of at least 1": {"keep": 0},
        "Invalid --license: 'a\\nb'. Expected one line of text": {"license": "a\nb"},
        "Invalid --language: 'Northern Sami'. Expected a BCP 47 tag": {"language": "Northern Sami"},
        "Expected one of the two": {"minutes": 1, "stop_after": "5"},
        "Expected --from": {"new_vocab": True},
        "exclude each other": {"start": str(base), "new_vocab": True, "extend_vocab": True},
        "Expected --new-vocab": {"start": str(base), "vocabulary": "x"},
        "Invalid size: huge. Expected tiny, small": {"size": "huge"},
        "takes 5,000. Expected a smaller --batch-size": {"batch_size": 1000},
        "Expected steps, e.g. 500": {"save_every": "often"},
        "<S>, </S>, <UNK> missing": {"vocabulary": str(base.parent / "base.txt")},
        "There is no file": {"files": ["nothing.txt"]},
        "from 1 to below `vocab_size`": {"num_sampled": 14},
    }.items():
        with pytest.raises(Exception, match=re.escape(message).replace("has\\ no", "has no")):
            run(LINES, **settings)


def test_bad_text(run, tmp_path):
    with pytest.warns(UserWarning, match="holds no text"), pytest.raises(ValueError, match="The corpus is empty"):
        run(["", "  "], held_out=[])
    (tmp_path / "bad.txt").write_bytes("\n".join(LINES).encode() + b"\nnot \xff text\n")
    with pytest.raises(ValueError, match=rf"bad\.txt, line {len(LINES) + 1}: not UTF-8"):
        run(LINES, files=[str(tmp_path / "bad.txt")])
    run(LINES, "replaced", files=[str(tmp_path / "bad.txt")], errors="replace")
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.warns(UserWarning, match=r"empty\.txt holds no text"):
        run(LINES, "with-empty", files=[str(tmp_path / "empty.txt"), str(tmp_path / "bad.txt")], errors="ignore")
    long = [*LINES, "", " ".join(["word"] * 100_000)]
    run(long, "long", stop_after="3", held_out=[])


@pytest.mark.slow
def test_a_vocabulary_in_another_order_is_warned_of(run, tmp_path):
    text = [" ".join([f"w{k:03}"] * (60 - k)) for k in range(50)]
    (tmp_path / "words.txt").write_text("\n".join(["<S>", "</S>", "<UNK>", *(f"w{k:03}" for k in range(49, -1, -1))]))
    with pytest.warns(UserWarning, match=r"another order than the corpus's counts \(rank correlation -1\.00"):
        run(text, "a", vocabulary=str(tmp_path / "words.txt"), num_sampled=5, epochs=1)
    run(text, "b", vocabulary=str(tmp_path / "words.txt"), epochs=1)  # all words: any order is right


def command(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["elmo-hf", "pretrain", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    printed = capsys.readouterr()
    return end.value.code, printed.out, printed.err


def test_the_command_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("warnings.showwarning", lambda *args, **kwargs: None)
    code, out, _ = command(monkeypatch, capsys, "--help")
    for option in Settings.__dataclass_fields__:
        name = {"files": "FILES", "start": "--from"}.get(option, f"--{option.replace('_', '-')}")
        assert name in out, name
    (tmp_path / "text.txt").write_text("\n".join(LINES))
    (tmp_path / "config.json").write_text(json.dumps(SIZES))
    options = ["--size", tmp_path / "config.json", "--batch-size", 4, "--unroll-steps", 5, "--epochs", 1]
    code, out, err = command(monkeypatch, capsys, tmp_path / "text.txt", "-o", tmp_path / "model", *options)
    assert code == 0 and "tokens/s" not in out and "saved:" in out
    code, _, err = command(monkeypatch, capsys, tmp_path / "none.txt", "-o", tmp_path / "other")
    assert code == 1 and err.startswith("Error: There is no file")


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere nothing is changed")
@pytest.mark.parametrize(("chosen", "policy"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "active"}, "ACTIVE")])
def test_threads_sleep_while_they_wait(chosen, policy, tmp_path):
    """As the OpenMP library itself says when torch loads it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    environment |= {"OMP_DISPLAY_ENV": "true", **chosen}
    command = [sys.executable, "-m", "elmo_hf.cli", "pretrain", tmp_path / "none.txt", "-o", tmp_path / "model"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "There is no file" in done.stderr and f"OMP_WAIT_POLICY = '{policy}'" in done.stderr, done.stderr


def test_the_original_recipe_carries_states_and_a_resume_may_not_change_that(run):
    assert Settings("x", ["y"]).chosen("fresh_starts") is True
    assert Settings("x", ["y"], recipe="original").chosen("fresh_starts") is False
    assert Settings("x", ["y"], fresh_starts=False).chosen("fresh_starts") is False
    fresh = load(run(LINES, "fresh", stop_after="20")[0])[0].state_dict()
    carried = load(run(LINES, "carried", stop_after="20", fresh_starts=False)[0])[0].state_dict()
    assert any(not torch.equal(fresh[name], carried[name]) for name in fresh)
    with pytest.raises(ValueError, match="fresh_starts True, and this is False"):
        run(LINES, "fresh", stop_after="30", resume=True, fresh_starts=False)
