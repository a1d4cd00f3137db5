"""Unicode words and characters: against another implementation of UAX 29, and against the words of UD treebanks."""

import gzip
import random
import re

import pytest
from golden_files import TESTS
from transformers import AutoTokenizer
from uniseg.wordbreak import words as uniseg_words

from elmo_hf import ElmoTokenizer

DATA = TESTS.parent.parent / "shared" / "data"
# Each treebank, and the least agreement of Unicode words with its words (F1 of spans).
TREEBANKS = {
    "languages/ud/de_gsd-ud-test": 0.97,
    "languages/ud/hu_szeged-ud-test": 0.95,
    "languages/ud/sl_ssj-ud-test": 0.99,
    "languages/ud/uk_iu-ud-test": 0.985,
    "languages/ud/sme_giella-ud-test": 0.98,
    "pos/en_ewt-ud-test": 0.95,
    "utf8/zh_gsd-ud-test": 0.43,  # a word of Chinese has mostly two characters
}
# The other implementation takes seconds for each of these.
SLOW = {f"{name}-ud-test": pytest.mark.slow for name in ("languages/ud/sl_ssj", "languages/ud/uk_iu", "pos/en_ewt")}
RUNS = re.compile(r"([.!?*=~`'\-\u2013\u2014])\1+")
PIECES = [
    *("don't l\u2019homme U.S. z.B. 1,000.50 1'000 a:b a_b _1 x\u00ady e\u0301 3\u0301 foo@bar.com Ost-West").split(),
    *"我 爱 カタカナー ひらがな 한국어 ส วั ดี हिन्दी עב\"ג שלום' ар'ка №5 € 👩\u200d👩\u200d👧 👍🏽 🇩🇪 🇩🇪🇫🇷".split(),
    *(" ", "  ", "\t", "\u00a0", ".", ",", "(", '"', "«", "、", "...", "--", "\u2060", "Ω\u0300", "\u200b"),
]


def read_treebank(name):
    """The texts of a treebank, and the spans of the words of each."""
    path = DATA / f"{name}.conllu.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the repository")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        sentences = file.read().strip().split("\n\n")
    for sentence in sentences:
        text = re.search(r"^# text = (.*)$", sentence, re.MULTILINE)[1]
        spans, end, covered = [], 0, 0
        for number, form in (line.split("\t")[:2] for line in sentence.split("\n") if line[0].isdigit()):
            first, _, last = number.partition("-")  # 3-4 for a contraction such as zum
            if "." in number or (not last and int(first) <= covered):
                continue
            covered = int(last or first)
            begin = text.index(form, end)
            end = begin + len(form)
            spans.append((begin, end))
        yield text, spans


def uax29_words(text):
    """The words by the package uniseg, without white space, and runs of one mark joined."""
    inside = {place for run in RUNS.finditer(text) for place in range(run.start() + 1, run.end())}
    words: list[str] = []
    end = 0
    for word in uniseg_words(text):
        if end in inside:
            words[-1] += word
        elif not word.isspace():
            words.append(word)
        end += len(word)
    return words


def test_words_are_those_of_another_implementation():
    """Random mixtures of scripts, marks and spaces."""
    random_, tokenizer = random.Random(0), ElmoTokenizer("unicode-words")
    for _ in range(3000):
        text = "".join(random_.choice(PIECES) + random_.choice(["", " "]) for _ in range(random_.randrange(1, 10)))
        if re.search(r"(?:^|\s|--|\.\.)[\u0300-\u036f\u200b-\u200d\u2060]", text):
            continue  # a mark on a space or on a run belongs to no word
        assert tokenizer.tokenize(text) == uax29_words(text), text


@pytest.mark.parametrize("splitting", ["unicode-words", "characters"])
@pytest.mark.parametrize("name", TREEBANKS)
def test_treebanks(name, splitting):
    """Offsets are exact, nothing but white space is lost, and most words are those of the annotators."""
    texts, expected = zip(*read_treebank(name), strict=True)
    batch = ElmoTokenizer(splitting)(list(texts), return_offsets_mapping=True)
    agreed = actual = 0
    for number, text in enumerate(texts):
        words, offsets = batch.tokens(number)[1:-1], batch["offset_mapping"][number][1:-1]
        assert [text[begin:end] for begin, end in offsets] == words
        assert "".join(words) == "".join(text.split())
        agreed, actual = agreed + len(set(map(tuple, offsets)) & set(expected[number])), actual + len(words)
    score = 2 * agreed / (actual + sum(map(len, expected)))
    print(f"{name}, {splitting}: F1 {score:.4f} of {sum(map(len, expected)):,} words")
    assert score >= TREEBANKS[name]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SLOW.get(name, ())) for name in TREEBANKS if "zh_" not in name]
)
def test_words_of_real_text_are_those_of_another_implementation(name):
    tokenizer = ElmoTokenizer("unicode-words")
    for text, _ in read_treebank(name):
        assert tokenizer.tokenize(text) == uax29_words(text)


@pytest.mark.parametrize(
    "splitting, text, words",
    [
        ("unicode-words", "I don't know... it's 3,000.50!", "I don't know ... it's 3,000.50 !"),
        ("unicode-words", "Er lernt „我爱你“ in Ost-Berlin.", "Er lernt „ 我 爱 你 “ in Ost - Berlin ."),
        ("characters", "Er lernt „我爱你“ in Ost-Berlin.", "Er lernt „ 我 爱 你 “ in Ost - Berlin ."),
        ("characters", "我有iPhone 15。", "我 有 iPhone 15 。"),
        ("characters", "カタカナー สวัสดี", "カ タ カ ナ ー ส วั ส ดี"),
        ("unicode-words", "カタカナー", "カタカナー"),
        ("unicode-words", "", ""),
    ],
)
def test_examples(splitting, text, words):
    assert ElmoTokenizer(splitting).tokenize(text) == words.split()


@pytest.mark.parametrize("unit", ["🇩🇪", "a.", "我", "\u0301", "1,", "'", "ดี", "word "])
def test_a_long_text_takes_linear_time(unit):
    """Counted in words; quadratic time would be minutes here."""
    text = unit * 100_000
    words = ElmoTokenizer("characters").split([text])[0]
    assert "".join(words) == text.replace(" ", "")


@pytest.mark.parametrize("splitting", ["unicode-words", "characters"])
def test_the_splitting_is_saved(splitting, tmp_path):
    ElmoTokenizer(splitting).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.splitting == splitting
    assert tokenizer.tokenize("我爱l'été 2,5") == ["我", "爱", "l'été", "2,5"]
