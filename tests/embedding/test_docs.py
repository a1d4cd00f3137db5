"""The lines of docs/guides/embed.md and docs/guides/migrate.md, run as they stand."""

import re

import numpy as np
import pytest
from small_models import small

from elmo_hf import ElmoEmbedder, ElmoModel, ElmoTokenizer, open_store

LIBRARIES = {"sentence_transformers": "sentence-transformers", "spacy": "spacy", "gensim": "gensim"}


def blocks(root, page):
    text = (root / "docs" / "guides" / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, flags=re.S)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with what the pages presuppose."""
    monkeypatch.chdir(tmp_path)
    small(ElmoModel).save_pretrained("my-elmo")
    ElmoTokenizer().save_pretrained("my-elmo")
    (tmp_path / "vocab.txt").write_text("\n".join(["<S>", "</S>", "<UNK>", "apple"]), encoding="utf-8")
    return tmp_path


def run(code):
    for module, package in LIBRARIES.items():
        if re.search(rf"^(import|from) {module}\b", code, flags=re.M):
            pytest.importorskip(module, reason=f"pip install {package}")
    found = {"__name__": "page"}
    exec(compile(code, "page", "exec"), found)
    return found


@pytest.mark.parametrize("number", range(6))
def test_migration(number, root, place, capsys):
    code = blocks(root, "migrate.md")
    assert len(code) == 6
    run(code[number])
    shapes = [
        "(3, 4, 16) [(3, 3, 16), (3, 1, 16)] [(3, 1, 16), (3, 1, 16)]",
        "torch.Size([2, 2, 16]) [[1, 1], [1, 0]]",
        "(3, 2, 16) (1, 16)",
        "(1, 16)",
        "[(2, 16), (3, 16)] (2, 16)",
        "(5, 48) (5, 16) (5, 16)",
    ]
    assert capsys.readouterr().out.strip() == shapes[number]


def test_embedding(root, place, capsys):
    encode, corpus, sentences, words, _ = blocks(root, "embed.md")
    run(encode)
    assert capsys.readouterr().out.strip() == "[(4, 16), (2, 16)] (2, 3, 16)"
    run(corpus)
    assert capsys.readouterr().out.strip() == "3 (3, 16) ['And', 'another'] [(0, 16), (2, 16)]"
    assert len(open_store("vectors")) == 3
    run(words)
    assert (place / "averaged.txt").read_text().startswith("5 16\n")
    run(sentences)
    assert capsys.readouterr().out.strip() == "(2, 16)"


def test_spacy(root, place, capsys):
    found = run(blocks(root, "embed.md")[-1])
    nlp, one, other = found["nlp"], found["one"], found["other"]
    first, second, value = capsys.readouterr().out.split()
    assert first == second == "bank" and -1 < float(value) < 0.99999
    embedder = ElmoEmbedder.from_pretrained("my-elmo")
    expected = embedder.encode([[token.text for token in one]], layers="average")[0]
    np.testing.assert_allclose(one.tensor, expected, atol=1e-5)
    np.testing.assert_allclose(one[4].vector, expected[4], atol=1e-5)
    np.testing.assert_allclose(one[1:3].vector, expected[1:3].mean(0), atol=1e-5)
    np.testing.assert_allclose(one.vector, expected.mean(0), atol=1e-5)
    assert one.similarity(one) == pytest.approx(1, abs=1e-5) and one.similarity(other) < 0.99999
    two = nlp("He sat. She works.")
    apart = embedder.encode([["He", "sat", "."], ["She", "works", "."]], layers="average")
    np.testing.assert_allclose(two.tensor, np.concatenate(apart), atol=1e-5)
    assert nlp("").tensor.shape == (0, 16)
