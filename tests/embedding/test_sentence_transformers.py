"""A saved ElmoModel in sentence-transformers: the words are pooled, and it trains."""

import numpy as np
import pytest
import torch
from small_models import small

from elmo_hf import ElmoEmbedder, ElmoForPreTraining, ElmoForTokenClassification, bundled_model

TEXTS = [
    "The cat sat on the mat .",
    "",
    "A",
    "Longer than all of the others , to be read in a batch with them .",
    "b c",
]


def vectors_of(folder):
    return ElmoEmbedder.from_pretrained(folder, device="cpu").encode(TEXTS, pooling="mean")


@pytest.fixture
def loaded(model_folder):
    library = pytest.importorskip("sentence_transformers", reason="pip install sentence-transformers")
    return library.SentenceTransformer(str(model_folder), trust_remote_code=True, device="cpu")


def test_only_base_models_carry_the_files(model_folder, tmp_path):
    assert (model_folder / "modules.json").exists()
    small(ElmoForTokenClassification).save_pretrained(tmp_path)
    assert not (tmp_path / "modules.json").exists()


def test_the_method_alone(embedder):
    batch = embedder.tokenizer(TEXTS, padding=True, return_tensors="pt")
    expected = torch.from_numpy(embedder.encode(TEXTS, pooling="mean"))
    for side in ("left", "right"):
        batch = embedder.tokenizer(TEXTS, padding=True, padding_side=side, return_tensors="pt")
        torch.testing.assert_close(embedder.model.sentence_vectors(**batch), expected, rtol=0, atol=1e-5)


def test_vectors_are_ours(loaded, model_folder, tmp_path):
    expected = vectors_of(model_folder)
    for batch_size in (1, 2, 5):
        np.testing.assert_allclose(loaded.encode(TEXTS, batch_size=batch_size), expected, rtol=0, atol=1e-5)
    assert loaded.max_seq_length == 2**20 and loaded.get_embedding_dimension() == expected.shape[1]
    loaded.save(str(tmp_path / "again"))
    again = type(loaded)(str(tmp_path / "again"), trust_remote_code=True, device="cpu")
    np.testing.assert_allclose(again.encode(TEXTS), expected, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_two_processes(loaded, model_folder):
    pool = loaded.start_multi_process_pool(["cpu", "cpu"])
    try:
        found = loaded.encode(TEXTS, pool=pool, chunk_size=2)
    finally:
        loaded.stop_multi_process_pool(pool)
    np.testing.assert_allclose(found, vectors_of(model_folder), rtol=0, atol=1e-5)


def test_two_steps_of_a_loss_of_its_own(loaded):
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model = loaded.train()
    before = {name: value.clone() for name, value in model.named_parameters()}
    loss, optimizer = MultipleNegativesRankingLoss(model), torch.optim.SGD(model.parameters(), lr=1.0)
    for _ in range(2):
        features = [model.preprocess(texts) for texts in (["a cat", "a dog"], ["cats", "dogs bark"])]
        optimizer.zero_grad()
        loss(features, None).backward()
        optimizer.step()
    changed = {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    assert any("bilm" in name for name in changed) and any("token_encoder" in name for name in changed)


def test_the_bundled_model():
    library = pytest.importorskip("sentence_transformers", reason="pip install sentence-transformers")
    sentences = ["It's raining.", "Yes"]
    vectors = library.SentenceTransformer(bundled_model("english"), device="cpu").encode(sentences)
    expected = ElmoEmbedder.from_pretrained("english").encode(sentences, pooling="mean")
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_a_language_model_has_the_files_too(tmp_path):
    small(ElmoForPreTraining, vocab_size=5).save_pretrained(tmp_path)
    assert (tmp_path / "modules.json").exists()
