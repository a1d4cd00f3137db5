"""The splitting of raw English against the Moses tokenizer itself, places in other languages, and residues."""

import difflib
import gzip
import importlib
import inspect
import lzma
import os
import pickle
import random

import pytest
from golden_files import TESTS
from sacremoses import MosesDetokenizer, MosesTokenizer
from transformers import AutoTokenizer

from elmo_hf import ElmoTokenizer, byte_rows
from elmo_hf.kernels import kernels_disabled
from elmo_hf.kernels import splitting as fast_splitting
from elmo_hf.model.splitting_elmo import SPLITTINGS

DATA = TESTS.parent.parent / "shared" / "data"
MODULES = "argparse asyncio decimal email http.client json logging os pathlib random re shutil statistics subprocess"


def documentation(lines):
    """Lines of natural text, quotes, code and numbers, as they stand in Python's own docstrings."""
    actual = {}
    for name in MODULES.split():
        module = importlib.import_module(name)
        things = [getattr(module, key) for key in dir(module)]
        things += [getattr(thing, key, None) for thing in things if inspect.isclass(thing) for key in dir(thing)]
        for thing in [module, *things]:
            text = getattr(thing, "__doc__", None)
            if isinstance(text, str):
                actual.update(dict.fromkeys(line.strip() for line in text.splitlines() if len(line.split()) > 4))
    assert len(actual) >= lines
    return list(actual)[:lines]


def corpus(lines):
    """Lines of four corpora with their spaces undone."""
    detokenizer, actual = MosesDetokenizer(lang="en"), []
    for name in ("enwik8", "openstax_ccby", "litbank_novels", "tatoeba_en"):
        with lzma.open(DATA / "lm" / f"{name}.sents.txt.xz", "rt", encoding="utf-8") as file:
            chosen = [line.split() for number, line in zip(range(15 * lines), file, strict=False) if number % 60 == 7]
        actual += [detokenizer.detokenize(words) for words in chosen if words]
    return actual[:lines]


def agreement(lines):
    """Which part of Moses' tokens are ours."""
    moses, ours = MosesTokenizer(lang="en"), ElmoTokenizer("moses-en")
    tokens = same = 0
    for line in lines:
        expected, actual = moses.tokenize(line, escape=False), ours.tokenize(line)
        tokens += len(expected)
        matches = difflib.SequenceMatcher(a=expected, b=actual, autojunk=False).get_matching_blocks()
        same += sum(match.size for match in matches)
    print(f"{len(lines)} lines, {tokens} tokens, {same / tokens:.4%} the same")
    return same / tokens


def test_documentation_is_split_as_moses_does():
    assert agreement(documentation(1000)) >= 0.99


def test_corpora_are_split_as_moses_does():
    if not DATA.exists():
        pytest.skip(f"the corpora are not in {DATA}")
    assert agreement(corpus(1000)) >= 0.99


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("I don't know; it's John's.", "I don 't know ; it 's John 's ."),
        ("It costs $2,900.50 (30%).", "It costs $ 2,900.50 ( 30 % ) ."),
        ('Dr. Smith of the U.S. said -- "no".', 'Dr. Smith of the U.S. said -- " no " .'),
        ("Wait... at 5 p.m. No. 5", "Wait ... at 5 p.m. No. 5"),
        ("naïve cafe\u0301 हिन्दी", "naïve cafe\u0301 हिन्दी"),
        ("", ""),
    ],
)
def test_examples(text, tokens):
    assert ElmoTokenizer("moses-en").tokenize(text) == tokens.split()


@pytest.mark.parametrize("name", ["de_gsd-ud-test", "zh_gsd-ud-test"])
@pytest.mark.parametrize("splitting", ["moses-en", "whitespace"])
def test_offsets_in_other_languages(name, splitting):
    if not DATA.exists():
        pytest.skip(f"the corpora are not in {DATA}")
    with gzip.open(DATA / "utf8" / f"{name}.conllu.gz", "rt", encoding="utf-8") as file:
        texts = [line.removeprefix("# text = ").rstrip("\n") for line in file if line.startswith("# text = ")]
    batch = ElmoTokenizer(splitting)(texts, return_offsets_mapping=True)
    for number, text in enumerate(texts):
        words = batch.tokens(number)[1:-1]
        assert [text[begin:end] for begin, end in batch["offset_mapping"][number][1:-1]] == words
        assert "".join(words) == "".join(text.split())


# Residues


def test_residues_one_by_one():
    """Against a walk over the text: every letter of both cases, other signs, and every way of asking."""
    letters = "ACDEFGHIKLMNPQRSTVWYXUZOB"
    letters, rng = f"{letters}{letters.lower()} \t\n\u00a0-*?3é\ud800", random.Random(0)
    tokenizer = ElmoTokenizer("residues")
    for length in range(40):
        text = "".join(rng.choices(letters, k=length))
        places = [place for place, letter in enumerate(text) if not letter.isspace()]
        expected = [text[place].upper() if text[place].isascii() else text[place] for place in places]
        expected = ["X" if letter in "UZOB" else letter for letter in expected]
        batch = tokenizer(text, return_offsets_mapping=True)
        assert batch.tokens() == ["<S>", *expected, "</S>"] and tokenizer.split([text]) == [expected]
        assert batch["offset_mapping"][1:-1] == [(place, place + 1) for place in places]
        assert batch["input_ids"][1:-1] == byte_rows(expected, 50).tolist()
        # Without Encodings, the shorter way gives the same; and so does a copy.
        assert tokenizer(text)["input_ids"] == batch["input_ids"] and tokenizer(text).tokens() == batch.tokens()
        assert pickle.loads(pickle.dumps(tokenizer(text))).tokens() == batch.tokens()


def test_residues_in_pairs_and_parts():
    tokenizer = ElmoTokenizer("residues")
    pair = tokenizer(["se q"], ["WU"], return_token_type_ids=True, return_offsets_mapping=True)
    assert pair.tokens() == ["<S>", "S", "E", "Q", "</S>", "<S>", "W", "X", "</S>"]
    assert pair["token_type_ids"] == [[0] * 5 + [1] * 4] and pair["offset_mapping"][0][3] == (3, 4)
    assert tokenizer("se q", "WU")["input_ids"] == pair["input_ids"][0]
    parts = tokenizer("SEQWENCO", truncation=True, max_length=5, stride=1, return_overflowing_tokens=True)
    assert ["".join(parts.tokens(k)[1:-1]) for k in range(4)] == ["SEQ", "QWE", "ENC", "CX"]
    assert tokenizer("SEQWENCO", truncation=True, max_length=5).tokens() == parts.tokens(0)


def test_words_and_added_tokens_are_not_spelled_as_residues():
    tokenizer = ElmoTokenizer("residues")
    assert tokenizer([["se q", "U", "x"]], is_split_into_words=True).tokens()[1:-1] == ["se q", "U", "x"]
    tokenizer.add_tokens(["[mod]"])
    batch = tokenizer("se[mod]U")
    assert batch.tokens()[1:-1] == ["S", "E", "[mod]", "X"]
    assert batch["input_ids"][1:-1] == byte_rows(["S", "E", "[mod]", "X"], 50).tolist()


@pytest.mark.parametrize("load", [ElmoTokenizer, AutoTokenizer])
def test_residues_are_saved(load, tmp_path):
    ElmoTokenizer("residues").save_pretrained(tmp_path)
    tokenizer = load.from_pretrained(tmp_path)
    assert tokenizer.splitting == "residues" and tokenizer.tokenize("sB w") == ["S", "X", "W"]
    assert tokenizer.decode(tokenizer("sB w")["input_ids"], skip_special_tokens=True) == "S X W"


ODD = "aabbAZé\u0301ह\u093fª½²ⅰ٣0189''''....,,--``()\u2019$ \t\u00a0\u0085\x1c\ud800\U0001f600\u200b\u2028  "
PIECES = "No. Art. pp. (No. Dr. U.S. p.m. 's don't 1980's 5'a boys' ... a.b 1,000 etc. J. Mr.) ' '' s' x.' .'".split()


@pytest.mark.parametrize("splitting", SPLITTINGS)
def test_words_found_piece_by_piece_are_those_of_the_whole_text(splitting, monkeypatch):
    """Whatever was read before, and whatever of it was forgotten."""
    monkeypatch.setattr(fast_splitting, "MAX_CACHED_PIECES", 1000)
    random_ = random.Random(1)

    def text():
        subset = [
            random_.choice(PIECES) + random_.choice(["", " ", "  "])
            if random_.random() < 0.5
            else "".join(random_.choices(ODD, k=random_.randrange(1, 6)))
            for _ in range(random_.randrange(1, 12))
        ]
        return "".join(subset)

    texts = [text() for _ in range(8000)] + ["", " ", "'", ".", "No. 3", "No.", "No. a", f"{'9' * 100_000}x"]
    tokenizer = ElmoTokenizer(splitting)
    with kernels_disabled():
        whole = tokenizer.split(texts)
    assert not tokenizer._cache
    assert tokenizer.split(texts) == whole
    assert len(tokenizer._cache) <= 1000
    encoded = tokenizer(texts[:500], return_offsets_mapping=True)  # by Rust alone
    assert encoded["input_ids"] == tokenizer(texts[:500])["input_ids"]


@pytest.mark.skipif(os.environ.get("ELMO_HF_KERNELS") == "0", reason="this process has no kernels")
def test_what_a_tokenizer_knows_of_pieces_is_not_copied():
    tokenizer = ElmoTokenizer()
    words = tokenizer.split(["Known by now, it is."])
    assert tokenizer._cache and not pickle.loads(pickle.dumps(tokenizer))._cache
    assert pickle.loads(pickle.dumps(tokenizer)).split(["Known by now, it is."]) == words


def test_a_text_of_one_new_thing_after_the_other_is_left_to_rust():
    random_ = random.Random(0)
    text = " ".join(f"{random_.random()}:{random_.random()}" for _ in range(3000))
    tokenizer = ElmoTokenizer()
    assert len(tokenizer.split([text])[0]) == 9000
    assert len(tokenizer._cache) < 20
