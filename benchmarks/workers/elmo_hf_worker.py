"""elmo_hf, from its safetensors folder, in one of its variants; but for one of them, no word is remembered."""

from collections.abc import Callable
from pathlib import Path

import torch
import transformers
from serve import Program, serve

import elmo_hf


def _remember_words(model: torch.nn.Module, settings: dict) -> torch.nn.Module:
    # As after a good part of a corpus: its frequent words have been seen.
    model.cache_words(megabytes=64)  # as by default
    words = Path(settings["checkpoint"], "vocab.txt").read_text(encoding="utf-8").split()
    tokenizer = elmo_hf.ElmoTokenizer.from_pretrained(settings["converted"])
    with torch.inference_mode():
        for start in range(0, len(words), 500):
            batch = [[word] for word in words[start : start + 500]]
            model(**tokenizer(batch, is_split_into_words=True, padding=True, return_tensors="pt"))
    return model


def _int8(model: torch.nn.Module, settings: dict) -> torch.nn.Module:
    model.quantize()
    return model


def _without_kernels(model: torch.nn.Module, settings: dict) -> torch.nn.Module:
    elmo_hf.kernels.KERNELS.clear()
    return model


# Name of the variant -> what makes it of a model.
VARIANTS: dict[str, Callable] = {
    "cold words": lambda model, settings: model,
    "plain torch": _without_kernels,
    "words remembered": _remember_words,
    "bfloat16": lambda model, settings: model.to(torch.bfloat16),
    "int8": _int8,
}


def load(settings: dict) -> Program:
    torch.set_num_threads(settings["threads"])
    prepare = VARIANTS[settings["variant"]]
    model = elmo_hf.ElmoModel.from_pretrained(settings["converted"]).eval()
    tokenizer = elmo_hf.ElmoTokenizer.from_pretrained(settings["converted"])
    model.cache_words(0)
    model = prepare(model, settings)

    @torch.inference_mode()
    def embed(batch):
        inputs = tokenizer(batch, is_split_into_words=True, padding=True, return_tensors="pt")
        return model(**inputs, output_hidden_states=True).hidden_states

    def to_arrays(layers, batch):
        # Position 0 is <S>.
        return [torch.stack(layers)[:, row, 1 : len(words) + 1].float().numpy() for row, words in enumerate(batch)]

    version = f"elmo_hf {elmo_hf.__version__}, torch {torch.__version__}, transformers {transformers.__version__}"
    return Program(version, embed, to_arrays)


serve(load)
