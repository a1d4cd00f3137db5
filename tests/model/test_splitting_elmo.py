"""The splitting of raw English against the Moses tokenizer itself, and places in other languages."""

import difflib
import gzip
import importlib
import inspect
import lzma

import pytest
from golden_files import TESTS
from sacremoses import MosesDetokenizer, MosesTokenizer

from elmo_hf import ElmoTokenizer

DATA = TESTS.parent.parent / "shared" / "data"
MODULES = "argparse asyncio decimal email http.client json logging os pathlib random re shutil statistics subprocess"


def documentation(lines):
    """Lines of natural text, quotes, code and numbers, as they stand in Python's own docstrings."""
    found = {}
    for name in MODULES.split():
        module = importlib.import_module(name)
        things = [getattr(module, key) for key in dir(module)]
        things += [getattr(thing, key, None) for thing in things if inspect.isclass(thing) for key in dir(thing)]
        for thing in [module, *things]:
            text = getattr(thing, "__doc__", None)
            if isinstance(text, str):
                found.update(dict.fromkeys(line.strip() for line in text.splitlines() if len(line.split()) > 4))
    assert len(found) >= lines
    return list(found)[:lines]


def corpus(lines):
    """Lines of four corpora with their spaces undone."""
    detokenizer, found = MosesDetokenizer(lang="en"), []
    for name in ("enwik8", "openstax_ccby", "litbank_novels", "tatoeba_en"):
        with lzma.open(DATA / "lm" / f"{name}.sents.txt.xz", "rt", encoding="utf-8") as file:
            chosen = [line.split() for number, line in zip(range(15 * lines), file, strict=False) if number % 60 == 7]
        found += [detokenizer.detokenize(words) for words in chosen if words]
    return found[:lines]


def agreement(lines):
    """Which part of Moses' tokens are ours."""
    moses, ours = MosesTokenizer(lang="en"), ElmoTokenizer("moses-en")
    tokens = same = 0
    for line in lines:
        expected, found = moses.tokenize(line, escape=False), ours.tokenize(line)
        tokens += len(expected)
        matches = difflib.SequenceMatcher(a=expected, b=found, autojunk=False).get_matching_blocks()
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
