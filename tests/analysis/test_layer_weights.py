"""Layer weights of saved models: against the parameters, for mixes that are learned and fixed."""

import json

import pytest
import torch
from small_models import small

from elmo_hf import ElmoForTokenClassification, ElmoModel


def test_weights_of_several_models(command, tmp_path):
    tagger = small(ElmoForTokenClassification, labels=["A", "B"])
    parameters = torch.tensor([0.5, -1.0, 2.0])
    tagger.elmo.scalar_mix.weight.data.copy_(parameters)
    tagger.elmo.scalar_mix.gamma.data.fill_(1.5)
    tagger.save_pretrained(tmp_path / "tagger")
    small(ElmoModel, mix="top", num_hidden_layers=1).save_pretrained(tmp_path / "top")
    options = ("--json", tmp_path / "a.json", "--plot", tmp_path / "a.png")
    code, out, err = command("analyse", "weights", tmp_path / "tagger", tmp_path / "top", *options)
    assert code == 0, err
    first, second = json.loads((tmp_path / "a.json").read_text())["mixes"]
    assert first["name"] == "tagger: elmo.scalar_mix" and first["gamma"] == 1.5
    exponents = parameters.exp()
    assert first["weights"] == pytest.approx((exponents / exponents.sum()).tolist())
    assert second["weights"] == [0, 1]
    assert out.splitlines()[1].split() == [
        "tagger:",
        "elmo.scalar_mix",
        *(f"{x:.2f}" for x in first["weights"]),
        "1.50",
    ]
    assert (tmp_path / "a.png").stat().st_size > 3000
