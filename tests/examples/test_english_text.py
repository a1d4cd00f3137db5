"""The text of the English model: held-out text and training text are kept apart."""

import gzip
import importlib
import io
import json
import lzma
import shutil
import sys
import tarfile

import pytest
from golden_files import TESTS


@pytest.fixture
def english(monkeypatch):
    """Modules of examples/english, by name."""
    monkeypatch.syspath_prepend(str(TESTS.parent / "examples" / "english"))
    yield importlib.import_module
    for name in ("prepare", "overlap", "bundle"):
        sys.modules.pop(name, None)


def sentence(source, number, length=12):
    return " ".join(f"{source}{number}w{place}" for place in range(length)) + " ."


def write_sources(data, english):
    """Small sources: later ones repeat held-out articles of the first, in new sentences."""
    prepare = english("prepare")
    for folder in ("lm/wikitext-2", "coref"):
        (data / folder).mkdir(parents=True)
    articles = [[sentence("a", 10 * number + line) for line in range(10)] for number in range(200)]
    held_out = [article for article in articles if prepare.share(article[0] + "\n" + article[-1]) < 1 / 64]
    assert held_out
    revised = [["Revised : " + line for line in article] for article in held_out]
    wikitext = sentence("wikitext", 0)
    news = [[sentence("new", 10 * number + line) for line in range(10)] for number in range(600)]
    texts = {
        "enwik8": articles,
        "openstax": [[sentence("o", line) for line in range(500)]],
        "litbank": [[sentence("novel", 100 * book + line) for line in range(100)] for book in range(12)],
        "tatoeba": [[f"Tom is here {number} ." for number in range(15)] + [f"Other {n} is ." for n in range(300)]],
        "wiki_excellent": [*news, *revised, [sentence("new", 0), "Yes .", "Yes .", "So : " + wikitext]],
        "wiki_2014": [["Again : " + sentence("x", 1), sentence("new", 1)]],
        "wiki_2020": [[sentence("y", 1)]],
        "novels_new": [[sentence("z", 1)]],
    }
    for name, documents in texts.items():
        path = data / {**prepare.FIRST_SOURCES, **prepare.MORE_SOURCES}[name]
        path.write_bytes(lzma.compress("\n\n".join("\n".join(one) for one in documents).encode()))
    for name in ("test", "valid"):
        (data / "lm" / "wikitext-2" / f"{name}.txt.gz").write_bytes(gzip.compress(f" {wikitext} \n".encode()))
    # Ten novels are in the coreference data.
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for book in range(10):
            rows = [f"b\t0\t0\t{word}" for line in range(3) for word in sentence("novel", 100 * book + line).split()]
            member = tarfile.TarInfo(f"{book}_book_brat.conll")
            member.size = len(content := "\n".join(rows).encode())
            tar.addfile(member, io.BytesIO(content))
    (data / "coref" / "litbank_conll.tar.xz").write_bytes(lzma.compress(archive.getvalue()))
    return held_out, wikitext


def runs_of_ten(lines):
    return {tuple(words[n : n + 10]) for words in map(str.split, lines) for n in range(len(words) - 9)}


def test_training_text_shares_no_ten_words_with_held_out_text(english, tmp_path, capsys):
    held_out, wikitext = write_sources(tmp_path / "data", english)
    english("prepare").prepare(tmp_path / "data", tmp_path / "text")
    counts = json.loads((tmp_path / "text" / "choices.json").read_text())["counts"]
    read = {
        f"{path.parent.name}/{path.stem}": path.read_text().splitlines()
        for path in (tmp_path / "text").glob("*/*.txt")
    }
    assert sorted(read["held-out/enwik8"]) == sorted(line for article in held_out for line in article)
    training = [line for name, lines in read.items() if name.startswith("train") for line in lines]
    forbidden = runs_of_ten([wikitext, *(line for name, lines in read.items() if "held" in name for line in lines)])
    assert not forbidden & runs_of_ten(training)
    # Revised held-out articles, a run of WikiText-2, a repeated sentence: gone. Short sentences may be repeated.
    excellent = read["train/wiki_excellent"]
    assert not any(line.startswith(("Revised", "So")) for line in excellent) and excellent.count("Yes .") == 2
    assert sum(line == sentence("new", 1) for line in training) <= 1
    assert counts["train/wiki_excellent"]["dropped"] >= 10 * len(held_out) + 1
    # Ten sentences of Tatoeba at most begin alike; no novel of the coreference data is left.
    tatoeba = read["train/tatoeba"] + read["held-out/tatoeba"]
    assert sum(line.startswith("Tom is here") for line in tatoeba) == 10
    assert min(int(line.split("w")[0].removeprefix("novel")) for line in training if line.startswith("novel")) >= 1000
    for name, lines in read.items():
        assert counts[name]["sentences"] == len(lines)
        assert counts[name]["words"] == sum(len(line.split()) for line in lines)
    # The same text again gives the same files.
    english("prepare").prepare(tmp_path / "data", tmp_path / "again")
    assert all(
        path.read_bytes() == (tmp_path / "again" / path.relative_to(tmp_path / "text")).read_bytes()
        for path in (tmp_path / "text").rglob("*.*")
    )


def test_the_history_is_that_of_the_newest_checkpoint(english, tmp_path):
    bundle = english("bundle")
    rows = [
        {"step": 50, "loss": 8.123456789, "epoch": 0.1, "seconds_used": 5.2, "grad_norm": 1.0},
        {"step": 100, "eval_perplexity": 99.5, "epoch": 0.2},
    ]
    for step in (50, 100):
        folder = tmp_path / "model.run" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        state = {"global_step": step, "max_steps": 100, "epoch": step / 500, "log_history": rows[: step // 50]}
        (folder / "trainer_state.json").write_text(json.dumps(state))
    history = bundle.history(tmp_path / "model")
    assert history["steps"] == 100 and history["epochs"] == 0.2 and history["seconds"] == 5
    assert history["history"] == [
        {"step": 50, "loss": 8.1235, "epoch": 0.1},
        {"step": 100, "eval_perplexity": 99.5, "epoch": 0.2},
    ]
    shutil.rmtree(tmp_path / "model.run" / "checkpoint-100")
    with pytest.raises(ValueError, match="the run stopped at step 50 of 100"):
        bundle.history(tmp_path / "model")
    with pytest.raises(ValueError, match="has no trainer_state.json"):
        bundle.history(tmp_path / "other")
