"""Words -> context-free vectors as ELMoForManyLangs computes them: characters and words from dictionaries.

The sibling of ElmoCharacterEncoder for models whose characters are Unicode characters out of a list, not bytes, beside
an embedding of whole words; either of the two may be absent. `config.dictionary` says how long the lists are. The
filling of a row is a character with a vector of its own.
"""

import torch
from torch import nn

from .character_cnn_elmo import ElmoHighway
from .configuration_elmo import ElmoConfig
from .int8_elmo import ElmoInt8Linear

# Each takes a window of all filters at all positions: 50 MB at the released size.
WORDS_AT_ONCE = 128


class ElmoDictionaryEncoder(nn.Module):
    """Rows of a word's id and its characters' (B, T, W), counted from 1, 0 for no token -> vectors (B, T, P)."""

    may_be_fused = True

    engine = "auto"

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.config = config
        sizes, size = config.dictionary, 0
        self.word_embedding = self.embedding = None
        self.convolutions, self.highways = nn.ModuleList(), nn.ModuleList()
        if sizes["words"]:
            size += sizes["word_dim"]
            self.word_embedding = nn.Embedding(sizes["words"] + 1, sizes["word_dim"], padding_idx=0)
        if sizes["characters"]:
            dim, filters = config.character_embedding_dim, config.token_filters
            size += filters
            self.embedding = nn.Embedding(sizes["characters"] + 1, dim, padding_idx=0)
            self.convolutions.extend(nn.Conv1d(dim, number, width) for width, number in config.character_cnn_filters)
            self.highways.extend(ElmoHighway(filters) for _ in range(config.num_highway_layers))
        self.projection = nn.Linear(size, config.projection_size)

    def forward(self, input_ids: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Vectors of all tokens, or with `mask` (B, T) of those it names; the others are then zero."""
        vectors = self.encode_distinct(input_ids.flatten(0, 1)).unflatten(0, input_ids.shape[:2])
        return vectors if mask is None else torch.where(mask[..., None], vectors, 0.0)

    def encode_distinct(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows (N, W) -> (N, P), each distinct word computed once."""
        if not len(rows):
            return rows.new_zeros(0, self.config.projection_size, dtype=self.projection.bias.dtype)
        distinct, numbers = torch.unique(rows, dim=0, return_inverse=True)
        return torch.cat([self.encode(part) for part in distinct.split(WORDS_AT_ONCE)])[numbers]

    def encode(self, rows: torch.Tensor) -> torch.Tensor:
        """What is computed: rows (N, W) -> (N, P)."""
        parts = []
        if self.word_embedding is not None:
            parts.append(self.word_embedding(rows[:, 0]))  # (N, word_dim)
            rows = rows[:, 1:]
        if self.embedding is not None:
            characters = self.embedding(rows).transpose(1, 2)  # (N, D, C)
            x = torch.cat([self.activation(conv(characters).amax(-1)) for conv in self.convolutions], -1)  # (N, F)
            for highway in self.highways:
                x = highway(x)
            parts.append(x)
        return self.projection(torch.cat(parts, -1))

    def activation(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) if self.config.character_cnn_activation == "relu" else torch.tanh(x)

    def quantize(self):
        """Puts the large weights, those after the convolutions, into eight bits, for inference."""
        for highway in self.highways:
            highway.carry, highway.transform = ElmoInt8Linear(highway.carry), ElmoInt8Linear(highway.transform)
        self.projection = ElmoInt8Linear(self.projection)
