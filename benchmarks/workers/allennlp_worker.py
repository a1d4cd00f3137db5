"""AllenNLP's ELMo: the biLM with all its layers, which its ElmoEmbedder was a thin cover of."""

from importlib.metadata import version

import stand_ins
import torch
from serve import Program, serve

stand_ins.install()

from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids  # noqa: E402


def load(settings: dict) -> Program:
    torch.set_num_threads(settings["threads"])
    checkpoint = settings["checkpoint"]
    model = _ElmoBiLm(f"{checkpoint}/options.json", f"{checkpoint}/weights.hdf5").eval()

    @torch.inference_mode()
    def embed(batch):
        return model(batch_to_ids(batch))["activations"]

    def to_arrays(layers, batch):
        # Position 0 is <S>.
        return [torch.stack(layers)[:, row, 1 : len(words) + 1].numpy() for row, words in enumerate(batch)]

    return Program(f"AllenNLP {version('allennlp')}, torch {torch.__version__}", embed, to_arrays)


serve(load)
