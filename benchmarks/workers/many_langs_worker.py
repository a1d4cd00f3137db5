"""Small models of ELMoForManyLangs by its own code, and the vectors that its Embedder gives:

python many_langs_worker.py FOLDER

Needs elmoformanylangs 0.0.4.post2 and overrides 3.1, which run beside a torch of today. For characters
with words, characters alone and words alone: the files of a model, and layers.npz. tests/conversion/many_langs holds
what this wrote.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from elmoformanylangs import Embedder
from elmoformanylangs.frontend import Model
from elmoformanylangs.modules.embedding_layer import EmbeddingLayer

MARKS = ["<oov>", "<bow>", "<eow>", "<bos>", "<eos>", "<pad>"]
WORDS = ["the", "cat", "zoë", "日本", "a" * 12]
SENTENCES = [
    ["the", "cat", "sat"],
    ["zoë", "日本", "語", "the", "e\u0308"],
    ["a" * 12, "a" * 10 + "cat", "x"],
    ["\u3000", "cat"],
    ["cat"],
]
CASES = {"both": (7, 5), "characters": (7, 0), "words": (0, 5)}


def write(folder: Path, character_dim: int, word_dim: int):
    config = {
        "encoder": {"name": "elmo", "projection_dim": 6, "cell_clip": 3, "proj_clip": 3, "dim": 11, "n_layers": 2},
        "token_embedder": {
            "name": "cnn",
            "activation": "relu",
            "filters": [[1, 3], [2, 4], [3, 5]],
            "n_highway": 2,
            "word_dim": word_dim,
            "char_dim": character_dim,
            "max_characters_per_token": 12,
        },
        "classifier": {"name": "sampled_softmax", "n_samples": 8},
        "dropout": 0.1,
    }
    (folder / "configs").mkdir(parents=True)
    (folder / "configs" / "small.json").write_text(json.dumps(config, indent=1))
    (folder / "config.json").write_text(json.dumps({"config_path": "configs/small.json", "seed": 1}))
    characters = {name: number for number, name in enumerate([*MARKS, *"thecasxzoë日本", "\u3000"])}
    words = {name: number for number, name in enumerate([*MARKS, *WORDS])}
    layers = []
    for name, dim, ids in (("word", word_dim, words), ("char", character_dim, characters)):
        layers.append(EmbeddingLayer(dim, ids, fix_emb=False) if dim else None)
        if dim:
            lines = "".join(f"{text}\t{number}\n" for text, number in ids.items())
            (folder / f"{name}.dic").write_text(lines, encoding="utf-8")
    model = Model(config, *layers, False)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "emb_layer" not in name:
                parameter.normal_(0, 1.5 / parameter.shape[-1] ** 0.5 if parameter.dim() > 1 else 0.3)
    torch.save(model.token_embedder.state_dict(), folder / "token_embedder.pkl")
    torch.save(model.encoder.state_dict(), folder / "encoder.pkl")


def main(folder: Path):
    torch.manual_seed(0)
    for case, sizes in CASES.items():
        write(folder / case, *sizes)
        vectors = {}
        for number, words in enumerate(SENTENCES):
            # A new one for each: it carries its state from batch to batch.
            embedder = Embedder(str(folder / case), batch_size=1)
            with torch.no_grad():
                vectors[str(number)] = embedder.sents2elmo([words], output_layer=-2)[0]
        np.savez_compressed(folder / case / "layers.npz", **vectors)
    (folder / "sentences.json").write_text(json.dumps(SENTENCES, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
