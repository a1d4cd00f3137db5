"""The progress of commands that write shards, the splittings of a text, and devices that are missing."""

import errno

import pytest
import torch
import typer

from elmo_hf.cli.corpus_run import Progress, parse_shard, ray_address, resumable_run
from elmo_hf.device import choose_device
from elmo_hf.embedding import RunSummary


def test_a_log_has_lines_of_progress(capsys, monkeypatch):
    monkeypatch.setattr(Progress, "SECONDS_BETWEEN_LINES", -1.0)
    progress = Progress()
    progress(RunSummary(expected=100))
    if not progress.bar.disable:
        pytest.skip("this output is a terminal")
    progress(RunSummary(expected=100, sentences=50, words=400, written=2, existing=1))
    progress.close()
    said = capsys.readouterr().err
    assert said.startswith("50 sentences, ") and "words/s, " in said and "minutes left" in said


def test_an_interrupted_run_says_how_it_goes_on(capsys, tmp_path):
    with pytest.raises(typer.Exit) as end, resumable_run(tmp_path) as progress:
        progress(RunSummary(expected=100))
        progress(RunSummary(expected=100, sentences=50, written=2, existing=1))
        raise KeyboardInterrupt
    assert end.value.exit_code == 130
    expected = "Stopped. 2 parts were made, 1 were there before. The same command resumes the run."
    assert expected in capsys.readouterr().err


def test_a_full_disk_is_named(tmp_path):
    with pytest.raises(Exception, match=str(tmp_path)) as error, resumable_run(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert "disk" in str(error.value)


def test_options_of_shards_and_clusters():
    with pytest.raises(typer.BadParameter, match="Expected K/N, for example 3/16"):
        parse_shard("3 of 16")
    assert ray_address(False, None) is False and ray_address(True, None) is True
    assert ray_address(True, "ray://head:10001") == "ray://head:10001"
    with pytest.raises(typer.BadParameter, match="needs --ray"):
        ray_address(False, "ray://head:10001")


def test_splittings_of_a_text(command, tmp_path):
    (tmp_path / "text.txt").write_text(("It's raining, isn't it?\n" * 2 + "The sun shines.\n" * 2) * 20)
    code, out, err = command("splitting", tmp_path / "text.txt")
    assert code == 0, err
    lines = out.splitlines()
    assert (
        lines[0] == "It's raining, isn't it?" and "  moses-en      It | 's | raining | , | isn | 't | it | ?" in lines
    )
    table = {fields[0]: fields[1:] for line in lines if (fields := line.split())[-1:] and fields[-1].endswith("%")}
    assert table["whitespace"] == ["280", "7", "100.0%"] and lines[-1].startswith("proposal: --splitting moses-en")
    (tmp_path / "short.txt").write_text("One line.\n")
    code, _, err = command("splitting", tmp_path / "short.txt")
    assert code == 1 and "1 sentence. Expected two sentences or more." in err


def test_devices_that_this_machine_has(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device(None) == torch.device("cuda")
    with pytest.raises(ValueError, match="Expected 'cpu' or 'cuda' or 'cuda:0' or 'mps'"):
        choose_device("no-device")
