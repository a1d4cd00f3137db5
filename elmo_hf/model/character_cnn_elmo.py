"""Words -> context-free vectors: convolutions over characters, highways, a projection; or a plain embedding.

`ElmoCharacterEncoder.encode` says what is computed. By default fast_words_elmo computes it once for each distinct
word of a batch, on no more characters than the word has.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .configuration_elmo import PADDING_CHARACTER, ElmoConfig
from .dispatch_elmo import has_fast_way
from .fast_word_cache_elmo import BYTES
from .int8_elmo import ElmoInt8Linear


class ElmoHighway(nn.Module):
    """`y = s * relu(transform(x)) + (1 - s) * x` with the gate `s = sigmoid(carry(x))`."""

    may_be_fused = True

    def __init__(self, size: int):
        super().__init__()
        self.carry = nn.Linear(size, size)
        self.carry.initial_bias = -2.0  # an untrained highway mostly carries its input on
        self.transform = nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(self.carry(x))
        return gate * F.relu(self.transform(x)) + (1 - gate) * x


class ElmoCharacterEncoder(nn.Module):
    """Rows of characters (B, T, C) -> token vectors (B, T, P)."""

    may_be_fused = True

    engine = "auto"
    bytes_of_words = BYTES  # of vectors that are kept from batch to batch

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.config = config
        size = config.token_filters
        self.embedding = nn.Embedding(config.character_vocab_size, config.character_embedding_dim, padding_idx=0)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.character_embedding_dim, number, width) for width, number in config.character_cnn_filters
        )
        self.highways = nn.ModuleList(ElmoHighway(size) for _ in range(config.num_highway_layers))
        self.projection = nn.Linear(size, config.projection_size) if size != config.projection_size else None

    @has_fast_way("encode")
    def forward(self, input_ids: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Vectors of all tokens, or with `mask` (B, T) of those it names; the others are then zero."""
        vectors = self.encode(input_ids.flatten(0, 1)).unflatten(0, input_ids.shape[:2])
        return vectors if mask is None else torch.where(mask[..., None], vectors, 0.0)

    def encode(self, rows: torch.Tensor) -> torch.Tensor:
        """The truth that every faster way is tested against: rows (N, C), all of them on all characters -> (N, P)."""
        missing = self.config.max_characters_per_token - rows.shape[1]
        characters = self.embedding(F.pad(rows, (0, missing), value=PADDING_CHARACTER)).transpose(1, 2)  # (N, D, C)
        x = torch.cat([self.activation(conv(characters).amax(-1)) for conv in self.convolutions], -1)  # (N, F)
        for highway in self.highways:
            x = highway(x)
        return x if self.projection is None else self.projection(x)

    def activation(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) if self.config.character_cnn_activation == "relu" else torch.tanh(x)

    def quantize(self):
        """Puts the large weights, those after the convolutions, into eight bits, for inference."""
        for highway in self.highways:
            highway.carry, highway.transform = ElmoInt8Linear(highway.carry), ElmoInt8Linear(highway.transform)
        if self.projection is not None:
            self.projection = ElmoInt8Linear(self.projection)


class ElmoWordEmbedding(nn.Module):
    """Word ids (B, T), 0 for no token and k + 1 for line k of the vocabulary -> token vectors (B, T, P)."""

    may_be_fused = True

    engine = "auto"

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size + 1, config.projection_size, padding_idx=0)

    def forward(self, input_ids: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Vectors of all tokens, or with `mask` (B, T) of those it names; the others are then zero."""
        vectors = self.embedding(input_ids)
        return vectors if mask is None else torch.where(mask[..., None], vectors, 0.0)
