"""Several seeds of one fine-tuning, and the cache of sentences that runs on the same data share."""

import json
import statistics

import pytest

from elmo_hf import ElmoModel, SentenceCache
from elmo_hf.kernels import prepared
from elmo_hf.tasks import finetune, finetune_seeds
from elmo_hf.tasks.finetuning.run import RESULT


def silent(line):
    pass


@pytest.fixture
def settings(base_model, data):
    return {"train": data / "reviews.jsonl", "model": str(base_model), "epochs": 1, "lr": 0.01}


def test_the_model_that_is_best_on_dev_is_kept_and_its_card_has_the_mean(settings, tmp_path, monkeypatch):
    lines = []
    result = finetune_seeds("classification", seeds=2, output=tmp_path / "best", say=lines.append, **settings)
    alone = {seed: finetune("classification", seed=seed, say=silent, **settings).scores for seed in (1, 2)}
    assert result.scores == alone
    assert result.best == max((1, 2), key=lambda seed: alone[seed]["dev"]["accuracy"])
    saved = json.loads((tmp_path / "best" / RESULT).read_text())
    assert saved["seed"] == result.best and saved["scores"] == alone[result.best]
    values = [100 * alone[seed]["dev"]["accuracy"] for seed in (1, 2)]
    expected = f"accuracy {statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"
    card = (tmp_path / "best" / "README.md").read_text()
    assert f"- dev: {expected}" in card and "best.seeds" not in card and f'model="{tmp_path / "best"}"' in card
    assert any(expected in line for line in lines)
    assert "elmo-hf annotate" in lines[-1] and not any("best.seeds" in line for line in lines)
    assert [path.name for path in tmp_path.iterdir()] == ["best"]
    with pytest.raises(ValueError, match="best is there already"):
        finetune_seeds("classification", seeds=2, output=tmp_path / "best", say=silent, **settings)


def test_an_interrupted_run_resumes_at_the_seed_that_is_missing(settings, tmp_path, monkeypatch, command):
    from elmo_hf.tasks.finetuning import seeds

    def interrupted(*arguments, **keywords):
        if keywords["seed"] == 2:
            raise KeyboardInterrupt
        return finetune(*arguments, **keywords)

    monkeypatch.setattr(seeds, "finetune", interrupted)
    with pytest.raises(KeyboardInterrupt):
        finetune_seeds("classification", seeds=2, output=tmp_path / "best", say=silent, **settings)
    monkeypatch.undo()
    lines = []
    with pytest.raises(ValueError, match="holds seeds of another call"):
        finetune_seeds("classification", seeds=2, output=tmp_path / "best", **{**settings, "lr": 0.02})
    finetune_seeds("classification", seeds=2, output=tmp_path / "best", say=lines.append, **settings)
    assert "Seed 2:" in lines and "Seed 1:" not in lines


@pytest.mark.parametrize("hashing", ["native", "python"])
def test_runs_on_the_same_data_share_what_the_bilm_computes(settings, monkeypatch, hashing):
    if hashing == "python":  # as without the native library, or on a GPU
        monkeypatch.setattr(prepared, "library", lambda: None)
    sentences = []
    run_layers = ElmoModel.run_layers
    monkeypatch.setattr(
        ElmoModel, "run_layers", lambda self, ids, *rest: sentences.append(len(ids)) or run_layers(self, ids, *rest)
    )
    cache = SentenceCache(10)
    for seed in (1, 2):
        finetune("classification", seed=seed, sentence_cache=cache, say=silent, **settings)
    assert sum(sentences) == len(cache) == 60  # 54 of train and 6 of dev, once
    assert not cache.is_full


def test_a_full_cache_is_no_reason_to_read_the_other_sentences(settings, monkeypatch):
    cache = SentenceCache(0.01)
    trainer = finetune("classification", sentence_cache=cache, say=silent, **settings)
    assert cache.is_full and 0 < len(cache) < 60
    whole = finetune("classification", say=silent, **settings)
    assert trainer.scores == whole.scores
