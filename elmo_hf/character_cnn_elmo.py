"""Words -> context-free vectors: convolutions over characters, highways, a projection; or a plain embedding."""

import torch
from torch import nn
from torch.nn import functional as F

from .configuration_elmo import ElmoConfig

PADDING_CHARACTER = 261  # what fills a row after the end mark; row 0 of the embedding means "no token"


class ElmoHighway(nn.Module):
    """`y = s * relu(transform(x)) + (1 - s) * x` with the gate `s = sigmoid(carry(x))`."""

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

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = input_ids.shape
        missing = self.config.max_characters_per_token - width
        rows = F.pad(input_ids, (0, missing), value=PADDING_CHARACTER).flatten(0, 1)  # (B * T, C)
        characters = self.embedding(rows).transpose(1, 2)  # (B * T, D, C)
        activation = torch.relu if self.config.character_cnn_activation == "relu" else torch.tanh
        x = torch.cat([activation(conv(characters).amax(-1)) for conv in self.convolutions], -1)  # (B * T, F)
        for highway in self.highways:
            x = highway(x)
        if self.projection is not None:
            x = self.projection(x)
        return x.unflatten(0, (batch, tokens))  # (B, T, P)


class ElmoWordEmbedding(nn.Module):
    """Word ids (B, T), 0 for no token and k + 1 for line k of the vocabulary -> token vectors (B, T, P)."""

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size + 1, config.projection_size, padding_idx=0)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.embedding(input_ids)
