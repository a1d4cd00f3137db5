"""The tables and layers of the recipe of languages."""

import importlib
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "languages"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def test_the_table_has_means_deviations_and_what_was_not_run(load, tmp_path):
    lines = ["frozen\t100\t0\t0.50\t0.1\t0.2", "frozen\t100\t1\t0.60\t0.3\t0.4", "tuned\t100\t0\t0.70\t0.5\t0.6"]
    (tmp_path / "sme-upos.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    figures = load("figures")
    scores = figures.read_all(tmp_path, "upos")
    assert list(scores) == ["sme"] and figures.read_all(tmp_path, "feats") == {}
    row = "| Northern Sámi | 100 | not run | not run | 55.0 ± 7.1 | 70.0 | 0-2 |"
    assert figures.table(scores).splitlines()[2] == row
    assert "20.0 ± 14.1 | 50.0" in figures.table(scores, 1) and "30.0 ± 14.1 | 60.0" in figures.table(scores, 2)


def test_the_guide_has_the_numbers_that_were_measured(load):
    figures = load("figures")
    guide = (FOLDER.parents[1] / "docs" / "guides" / "languages.md").read_text(encoding="utf-8")
    for number in range(3):
        assert figures.table(figures.read_all(FOLDER / "measured", "upos"), number) in guide
    assert figures.table(figures.read_all(FOLDER / "measured", "feats")) in guide


def test_layers_stand_alone_mixed_and_side_by_side(load):
    layers = torch.randn(3, 5, 4)
    inputs = load("layers").inputs_of(layers)
    assert list(inputs) == ["layer 0", "layer 1", "layer 2", "mix", "side by side"]
    assert inputs["layer 2"].equal(layers[2:]) and inputs["mix"].equal(layers)
    normalised = (layers[1] - layers[1].mean(-1, keepdim=True)) / layers[1].std(-1, keepdim=True, correction=0)
    torch.testing.assert_close(inputs["side by side"][0, :, 4:8], normalised, atol=1e-4, rtol=1e-4)
