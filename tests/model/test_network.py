"""A task network as the paper draws it, `[x; ELMo1] -> LSTM -> [h; ELMo2]`, built by a user from public parts."""

import pytest
import torch
from torch import nn

from elmo_hf import ElmoConfig, ElmoModel, ElmoScalarMix, ElmoTokenizer


class Network(nn.Module):
    def __init__(self, elmo, words=50, size=8, labels=3):
        super().__init__()
        self.elmo, hidden = elmo, elmo.config.hidden_size
        self.input_mix, self.output_mix = ElmoScalarMix(3), ElmoScalarMix(3)
        self.words = nn.Embedding(words, size)
        self.lstm = nn.LSTM(size + hidden, size, batch_first=True)
        self.classify = nn.Linear(size + hidden, labels)

    def forward(self, words, input_ids, attention_mask):
        layers = self.elmo(input_ids, attention_mask, output_hidden_states=True).hidden_states
        x = torch.cat([self.words(words), self.input_mix(layers, attention_mask)], -1)
        h, _ = self.lstm(x)
        return self.classify(torch.cat([h, self.output_mix(layers, attention_mask)], -1))


def weights(module):
    return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}


@pytest.mark.parametrize("frozen", [True, False])
def test_two_mixes_learn_over_one_pass(frozen, tmp_path):
    torch.manual_seed(0)
    config = ElmoConfig(character_cnn_filters=[[1, 8], [2, 8]], projection_size=8, cell_size=12, num_highway_layers=1)
    ElmoModel(config).save_pretrained(tmp_path / "base")
    elmo = ElmoModel.from_pretrained(tmp_path / "base", freeze_bilm=frozen)
    elmo.save_pretrained(tmp_path / "again")
    elmo = ElmoModel.from_pretrained(tmp_path / "again")  # freezing survives
    passes = []
    elmo.bilm.register_forward_hook(lambda *args: passes.append(1))
    network = Network(elmo).train()
    batch = ElmoTokenizer("whitespace")(["a b c", "d e"], padding=True, return_tensors="pt")
    words = torch.randint(50, batch["attention_mask"].shape)
    labels = torch.tensor([[0, 1, 2, 1, 0], [0, 2, 1, 0, 0]])
    before, losses = weights(elmo), []
    optimizer = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], lr=0.02)
    for _ in range(30):
        logits = network(words, **batch)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0] and len(passes) == 30
    first, other = network.input_mix.layer_weights(), network.output_mix.layer_weights()
    assert (
        (first - other).abs().max() > 1e-3
        and (first - 1 / 3).abs().max() > 1e-3
        and (other - 1 / 3).abs().max() > 1e-3
    )
    after = weights(elmo)
    same = [torch.equal(before[name], after[name]) for name in before if "scalar_mix" not in name]
    assert all(same) if frozen else not any(same)
