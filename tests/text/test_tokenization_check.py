"""Tokenised and raw text are told apart, on single sentences and on the corpora of many languages."""

import gzip
import lzma

import pytest
from golden_files import TESTS

from elmo_hf.text.tokenization_check import looks_tokenized

DATA = TESTS.parent.parent / "shared" / "data"


@pytest.mark.parametrize(
    "line",
    [
        "The cat sat .",
        "He didn 't know , they said , that it 's late .",
        "I ca n't .",
        "( 30 % ) of the U.S.",
        '" Where is Dr. Smith ? "',
        "我 爱 北京 。",
        "यह अच्छा है ।",
    ],
)
def test_tokenised(line):
    assert looks_tokenized([line])


@pytest.mark.parametrize(
    "line",
    [
        "The cat sat.",
        "He didn't know, they said, that it's late.",
        "Ah ! dit-il, « tu viens ? » Oui.",
        "In 1990 (the year), all of it - nearly all - was gone.",
        '"Where is Dr. Smith?"',
        "我爱北京。",
        "no punctuation at all",
        "the U.S. and Dr. Smith",
        "",
    ],
)
def test_raw(line):
    assert not looks_tokenized([line])


def test_lists_of_words_are_skipped():
    assert not looks_tokenized([["The", "cat", "."]])
    assert looks_tokenized([["The", "cat."], "The cat ."])


@pytest.mark.parametrize("name", ["deu", "hun", "slv", "sme", "ukr"])
def test_raw_corpora(name):
    path = DATA / "languages" / f"{name}.sents.raw.txt.xz"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the repository")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        assert not looks_tokenized(file)


@pytest.mark.parametrize("name", ["enwik8", "openstax_ccby", "litbank_novels", "tatoeba_en", "wiki_2020"])
def test_tokenised_corpora(name):
    path = DATA / "lm" / f"{name}.sents.txt.xz"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the repository")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        assert looks_tokenized(file)


def sentences(path):
    """The sentences of a treebank, raw and as words between spaces."""
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the repository")
    raw, words = [], []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.startswith("# text = "):
                raw.append(line[9:].strip())
                words.append([])
            elif line[:1].isdigit() and line.split("\t")[0].isdigit():
                words[-1].append(line.split("\t")[1])
    return raw, [" ".join(sentence) for sentence in words]


@pytest.mark.parametrize("name", ["pos/en_ewt-ud-test", "utf8/de_gsd-ud-test", "utf8/zh_gsd-ud-test"])
def test_treebanks(name):
    raw, tokenised = sentences(DATA / f"{name}.conllu.gz")
    assert looks_tokenized(tokenised) and not looks_tokenized(raw)
    wrong = sum(map(looks_tokenized, ([line] for line in raw)))
    missed = len(tokenised) - sum(map(looks_tokenized, ([line] for line in tokenised)))
    print(f"{name}: {wrong} of {len(raw)} single raw sentences look tokenised, {missed} tokenised ones look raw")
    assert wrong < 0.02 * len(raw)
