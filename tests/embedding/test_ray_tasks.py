"""Parts made on Ray: the same bytes, also when a worker and then the driver are killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from elmo_hf import embed_corpus

SETTINGS = {"part_sentences": 2, "layers": "all", "device": "cpu"}
DRIVER = """
import sys
from elmo_hf import SentenceSource, embed_corpus

model, text, store = sys.argv[1:]
embed_corpus(model, SentenceSource(text), store, part_sentences=2, layers="all", device="cpu", ray=True)
"""


def workers():
    """Processes of Ray that make parts; their names say so while they do."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"ray::_make" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def test_a_message_where_ray_is_missing(model_folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match="pip install 'elmo-hf\\[ray\\]'"):
        embed_corpus(model_folder, ["a"], tmp_path / "store", ray=True)


@pytest.mark.skipif(not Path("/proc").exists(), reason="workers are found in /proc")
def test_killed_workers_and_drivers(model_folder, sentences, text_file, tmp_path):
    pytest.importorskip("ray", reason="pip install ray (250 MB), which `make test` does not")
    embed_corpus(model_folder, sentences, tmp_path / "expected", **SETTINGS)
    expected = {path.name: path.read_bytes() for path in (tmp_path / "expected").iterdir()}
    store = tmp_path / "store"
    arguments = [sys.executable, "-c", DRIVER, str(model_folder), str(text_file), str(store)]
    # A home of its own shows what is left in it.
    (tmp_path / "home").mkdir()
    environment = {**os.environ, "HOME": str(tmp_path / "home")}
    driver = subprocess.Popen(arguments, env=environment)
    try:
        killed, deadline = False, time.monotonic() + 300
        while driver.poll() is None and time.monotonic() < deadline:
            if not killed and (found := workers()):
                os.kill(found[0], signal.SIGKILL)
                killed = True
            if killed and len(list(store.glob("part-*"))) >= 3:
                driver.kill()
                break
            time.sleep(0.02)
        assert killed, "no worker was seen"
    finally:
        driver.kill()
        driver.wait()
    subprocess.run(arguments, env=environment, check=True, timeout=400)
    assert {path.name: path.read_bytes() for path in store.iterdir()} == expected
    assert not [path for path in (tmp_path / "home").rglob("*") if "ray" in path.name or "token" in path.name]
