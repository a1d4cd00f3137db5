"""A small model.tar.gz by AllenNLP's own Elmo and Archive layout, and the vectors that it gives:

python allennlp_archive_worker.py OPTIONS.json WEIGHTS.hdf5 SENTENCES.json FOLDER

The ELMo has two mixes that are not the average, and stands beside an encoder and a layer of labels, as in a tagger.
tests/conversion/allennlp holds what this wrote.
"""

import json
import sys
import tarfile
from pathlib import Path

import numpy as np
import stand_ins
import torch

stand_ins.install()

from allennlp.modules.elmo import Elmo, batch_to_ids  # noqa: E402


class Tagger(torch.nn.Module):
    def __init__(self, options: str, weights: str):
        super().__init__()
        embedder, holder = torch.nn.Module(), torch.nn.Module()
        embedder._elmo = Elmo(options, weights, num_output_representations=2, dropout=0.0, requires_grad=True)
        embedder._projection = torch.nn.Linear(12, 5)
        holder.token_embedder_elmo = embedder
        self.text_field_embedder = holder
        self.encoder = torch.nn.GRU(5, 4)
        self.tag_projection_layer = torch.nn.Linear(4, 3)


@torch.no_grad()
def main(options: str, weights: str, sentences: str, folder: Path):
    torch.manual_seed(0)
    tagger = Tagger(options, weights).eval()
    elmo = tagger.text_field_embedder.token_embedder_elmo._elmo
    for parameter in elmo._elmo_lstm.parameters():  # as after fine-tuning: no longer what the HDF5 holds
        if parameter.dim() > 1 and parameter.shape[0] != 262:
            parameter.add_(0.05 * torch.randn_like(parameter))
    for mix in (elmo.scalar_mix_0, elmo.scalar_mix_1):
        mix.gamma.normal_(1, 0.3)
        for parameter in mix.scalar_parameters:
            parameter.normal_()
    folder.mkdir(parents=True)
    torch.save(tagger.state_dict(), folder / "weights.th")
    embedder = {"type": "elmo_token_embedder", "options_file": "somewhere/options.json", "projection_dim": 5}
    config = {"model": {"type": "simple_tagger", "text_field_embedder": {"token_embedders": {"elmo": embedder}}}}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "vocabulary").mkdir()
    (folder / "vocabulary" / "labels.txt").write_text("O\nB\nI\n")
    with tarfile.open(folder / "model.tar.gz", "w:gz") as archive:
        for name in ("config.json", "weights.th", "vocabulary"):
            archive.add(folder / name, name)

    expected = {}
    for number, words in enumerate(json.loads(Path(sentences).read_text(encoding="utf-8"))):
        elmo._elmo_lstm._elmo_lstm.reset_states()
        ids = batch_to_ids([words])
        layers = torch.cat(elmo._elmo_lstm(ids)["activations"])[:, 1:-1]
        elmo._elmo_lstm._elmo_lstm.reset_states()
        mixes = torch.cat(elmo(ids)["elmo_representations"])
        elmo._elmo_lstm._elmo_lstm.reset_states()
        expected |= {f"layers/{number}": layers.numpy(), f"mixes/{number}": mixes.numpy()}
    np.savez_compressed(folder / "expected.npz", **expected)


if __name__ == "__main__":
    main(*sys.argv[1:4], Path(sys.argv[4]))
