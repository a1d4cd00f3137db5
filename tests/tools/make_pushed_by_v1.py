"""Writes tests/fixtures/pushed_by_v1: what version 1 of the package saved, and what its models computed.

The files are a record of the past and are not made again. To run the script, check out the last commit of version 1
with a virtual environment of its own and give its Python:

    <checkout>/.venv/bin/python tests/tools/make_pushed_by_v1.py tests/fixtures/pushed_by_v1
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

from elmo_hf import (
    ElmoConfig,
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
)

SIZES = {"character_cnn_filters": [[1, 4], [2, 4]], "projection_size": 4, "cell_size": 8, "num_highway_layers": 1}
TEXTS = [
    "Ann doesn't live in Rome ( or does she ? ) .",
    "Yes",
    "Žofie čte 日本語 every morning , more or less .",
]
VOCABULARY = ["<S>", "</S>", "<UNK>", ".", ",", "Ann", "Rome", "in", "live", "Yes", "every", "morning", "or"]
LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
# Name of the repository -> class of the model and its configuration.
REPOSITORIES = {
    "base": (ElmoModel, {}),
    "language_model": (ElmoForPreTraining, {"vocab_size": len(VOCABULARY), "num_sampled": 4}),
    "tagger": (ElmoForTokenClassification, {"head": {"type": "linear"}}),
    "classifier": (ElmoForSequenceClassification, {"head": {"type": "linear", "pooling": "max"}}),
    "crf_tagger": (ElmoForTokenClassification, {"head": {"type": "bilstm-crf", "size": 6, "layers": 1}}),
    "int8": (ElmoModel, {}),
}
RUN_TEXT = [" ".join("the cat sat on a mat and saw another dog there".split()[k % 7 : k % 7 + 5]) for k in range(40)]
# Arguments of `elmo-hf`, in the folder of the run.
RUN_OPTIONS = (
    "pretrain text.txt -o model --size config.json --min-count 1 --batch-size 2 --unroll-steps 5 --epochs 2 "
    "--num-sampled 4 --log-every 1 --save-every 3 --evaluate-every 1000 --keep 1 --threads 1"
).split()


def make_model(name, seed):
    model_class, settings = REPOSITORIES[name]
    names = {"id2label": dict(enumerate(LABELS)), "label2id": {label: i for i, label in enumerate(LABELS)}}
    config = ElmoConfig(**SIZES, **settings, **(names if "Classification" in model_class.__name__ else {}))
    torch.manual_seed(seed)
    model = model_class(config).eval()
    # Biases and mixes begin at zero, where a mistake would not show.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        model.base_model.token_encoder.embedding.weight[0] = 0.0
    if name == "int8":
        model.quantize()
    return model


def numbers(prefix, output):
    """The tensors of an output by name, those in tuples numbered."""
    found = {}
    for name, value in output.items():
        for number, part in enumerate(value) if isinstance(value, tuple) else [(None, value)]:
            if torch.is_tensor(part):
                found[f"{prefix}.{name}" + ("" if number is None else f".{number}")] = part.clone().contiguous()
    return found


@torch.no_grad()
def expected(model, tokenizer):
    """What the model and its biLM say of TEXTS, in one padded batch."""
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    found = numbers("base", model.base_model(**batch, output_hidden_states=True))
    if isinstance(model, ElmoForPreTraining):
        words = tokenizer(TEXTS, padding=True, return_tensors="pt", return_lm_labels=True)
        found |= numbers("model", model(**words, return_logits=True))
    elif not isinstance(model, ElmoModel):
        found |= numbers("model", model(**batch))
    return {name: value for name, value in found.items() if "past_states" not in name}


def write_repository(folder, code, name, seed):
    model = make_model(name, seed)
    tokenizer = ElmoTokenizer("moses-en", word_vocabulary=VOCABULARY if name == "language_model" else None)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for path in folder.glob("*.py"):
        target = code / path.name
        assert not target.exists() or target.read_bytes() == path.read_bytes(), path
        path.replace(target)
    found = expected(model, tokenizer)
    if name == "int8":
        # The packed engine rounds what goes into a product too; the plain loop multiplies by the rounded weights.
        model.set_engine("reference")
        found |= {f"dequantized.{key}": value for key, value in expected(model, tokenizer).items()}
    save_file(found, folder.with_name(f"{name}.expected.safetensors"))


def elmo_hf(*arguments, folder):
    command = [sys.executable, "-c", "from elmo_hf.cli import main; main()", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def write_stores(folder):
    folder.mkdir()
    (folder / "text.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    for format in ("safetensors", "parquet"):
        options = ["--format", format, "--layers", "all", "--part-sentences", "2", "--processes", "1"]
        process = elmo_hf("embed", "../repositories/complete", "text.txt", format, *options, folder=folder)
        out, _ = process.communicate()
        assert process.returncode == 0, out


def write_run(folder, code):
    """A run that was killed after a checkpoint, and the weights of one that was not."""
    folder.mkdir()
    (folder / "text.txt").write_text("\n".join(RUN_TEXT), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({**SIZES, "max_characters_per_token": 12}))
    whole = folder.with_name("whole_run")
    shutil.copytree(folder, whole)
    out, _ = (process := elmo_hf(*RUN_OPTIONS, folder=whole)).communicate()
    assert process.returncode == 0, out
    (folder / "command.json").write_text(json.dumps(RUN_OPTIONS))
    process = elmo_hf(*RUN_OPTIONS, folder=folder)
    while not list(folder.glob("model.run/checkpoint*/trainer_state.json")):
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    shutil.copy(whole / "model/model.safetensors", folder / "whole_run.safetensors")
    shutil.rmtree(whole)
    for name in ("running.json", "lock"):
        (folder / "model.run" / name).unlink(missing_ok=True)
    for path in folder.glob("model.run/checkpoint*/*.py"):
        assert path.read_bytes() == (code / path.name).read_bytes(), path
        path.unlink()


def write(folder):
    repositories = folder / "repositories"
    code = repositories / "code"
    code.mkdir(parents=True)
    for seed, name in enumerate(REPOSITORIES):
        write_repository(repositories / name, code, name, seed)
    shutil.copytree(repositories / "base", repositories / "complete")
    shutil.copytree(code, repositories / "complete", dirs_exist_ok=True)
    write_stores(folder / "stores")
    shutil.rmtree(repositories / "complete")
    write_run(folder / "run", code)


if __name__ == "__main__":
    # Cards and checkpoints name the folder that they were written to.
    with tempfile.TemporaryDirectory() as temporary:
        write(Path(temporary) / "elmo")
        shutil.copytree(Path(temporary) / "elmo", sys.argv[1])
