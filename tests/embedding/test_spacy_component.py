"""The spaCy component of docs/guides/embed.md gives the vectors of ElmoEmbedder."""

import re

import numpy as np
import pytest
from documentation import forget_spacy_factory
from small_models import small

from elmo_hf import ElmoEmbedder, ElmoModel, ElmoTokenizer

pytest.importorskip("spacy", reason="pip install spacy")


@pytest.fixture
def folder_with_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small(ElmoModel).save_pretrained("my-elmo")
    ElmoTokenizer().save_pretrained("my-elmo")
    return tmp_path


def test_vectors_and_similarity(root, folder_with_model, capsys):
    page = (root / "docs" / "guides" / "embed.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", page, flags=re.S)[-1]
    forget_spacy_factory()
    variables = {"__name__": "page"}
    exec(compile(code.replace('"english"', '"my-elmo"'), "page", "exec"), variables)
    nlp, one, other = variables["nlp"], variables["first"], variables["second"]
    word, same_word, value = capsys.readouterr().out.split()
    assert word == same_word == "bank" and -1 < float(value) <= 1
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
