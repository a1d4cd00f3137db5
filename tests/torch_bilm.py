"""ElmoModel with the interface of ReferenceBilm, so that the same tests run on both."""

import numpy as np
import torch

from elmo_hf.model.modeling_elmo import LstmWeights, linear, lstm_step


class TorchBilm:
    def __init__(self, model):
        self.model = model.eval()
        config = model.config
        self.projection_size, self.cell_size, self.num_layers = (
            config.projection_size,
            config.cell_size,
            config.num_hidden_layers,
        )
        self.num_directions, self.use_skip_connections = config.num_directions, config.use_skip_connections

    def __call__(self, sentences, states=None):
        """All sentences in one padded batch."""
        rows = [torch.from_numpy(np.array(sentence)) for sentence in sentences]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        with torch.no_grad():
            output = self.model(ids, past_states=self._states(states), output_hidden_states=True, use_cache=True)
        layers = torch.stack(output.hidden_states, 1).numpy()  # (B, L + 1, T, directions * P)
        outputs = [layers[k, :, : len(sentence)] for k, sentence in enumerate(sentences)]
        last = [
            [
                [tuple(part[k, d].numpy() for part in layer) for layer in output.past_states]
                for d in range(self.num_directions)
            ]
            for k in range(len(sentences))
        ]
        return outputs, last

    def zero_state(self):
        zero = self._zeros(self.projection_size), self._zeros(self.cell_size)
        return [[zero] * self.num_layers for _ in range(self.num_directions)]

    def token_vector(self, row):
        with torch.no_grad():
            return self.model.token_encoder(torch.tensor(np.array(row))[None])[0].numpy()

    def step(self, direction, layer, x, h, c):
        bilm = self.model.bilm
        weights, clips = LstmWeights(*bilm.directions[direction][layer](None)), bilm.layers[layer]
        x, h, c = (torch.tensor(np.asarray(part))[None].to(self.model.dtype) for part in (x, h, c))
        with torch.no_grad():
            gates = linear(x, weights.input, weights.bias)
            state = lstm_step(gates, h, c, weights, clips.cell_clip, clips.projection_clip)
        return tuple(part[0].numpy() for part in state)

    def _zeros(self, size):
        return torch.zeros(size, dtype=self.model.dtype).numpy()

    def _states(self, states):
        if states is None:
            return None

        def gather(layer, part):  # (B, directions, P or H)
            values = [[direction[layer][part] for direction in state] for state in states]
            return torch.tensor(np.array(values), dtype=self.model.dtype)

        return tuple((gather(layer, 0), gather(layer, 1)) for layer in range(self.num_layers))
