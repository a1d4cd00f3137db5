import pytest

from elmo_hf.analysis import LayerReader


@pytest.fixture
def reader(small_model, tokenizer):
    return LayerReader(small_model, tokenizer)


@pytest.fixture
def folder(small_model, tokenizer, tmp_path):
    """The same model and tokenizer, saved."""
    small_model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"
