"""A splitting is proposed that fits the language and the form of a text."""

import gzip
import lzma
import re

import pytest
from golden_files import TESTS

from elmo_hf.text.splitting import propose_splitting

DATA = TESTS.parent.parent / "shared" / "data"


@pytest.mark.parametrize(
    "line, splitting",
    [
        ("Das Haus ist groß, sagte sie.", "unicode-words"),
        ("The end of the road, and of the day.", "moses-en"),
        ("Ukrainian: Будинок великий, сказала вона.", "unicode-words"),
        ("我爱北京，你呢？", "characters"),
        ("ฉันรักคุณ", "characters"),
        ("나는 학교에 갔다.", "unicode-words"),
        ("the cat sat on a mat", "whitespace"),
        ("It 's late , they said .", "whitespace"),
        ("MKVLAAGIVGLLLAQWERTYIPASDFGHKLCV", "residues"),
        ("", "whitespace"),
    ],
)
def test_examples(line, splitting):
    assert propose_splitting([line]).splitting == splitting


def test_the_reason_says_what_was_seen():
    assert propose_splitting(["我爱北京。"]).reason == "100% of the letters are of scripts without spaces"
    assert "attached to 33% of the words" in propose_splitting(["Das Haus ist groß, sagte sie."]).reason


@pytest.mark.parametrize("name", ["deu", "hun", "slv", "sme", "ukr"])
def test_raw_corpora(name):
    path = DATA / "languages" / f"{name}.sents.raw.txt.xz"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the repository")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        proposal = propose_splitting(line for line, _ in zip(file, range(1000), strict=False))
    assert proposal.splitting == "unicode-words" and not proposal.tokenized


@pytest.mark.parametrize(
    "name, splitting", [("pos/en_ewt-ud-test", "moses-en"), ("utf8/zh_gsd-ud-test", "characters")]
)
def test_treebanks(name, splitting):
    path = DATA / f"{name}.conllu.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the repository")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = re.findall(r"^# text = (.*)$", file.read(), re.MULTILINE)
    assert propose_splitting(texts).splitting == splitting
