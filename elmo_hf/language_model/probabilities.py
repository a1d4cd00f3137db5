"""Probabilities of words under a language model, in memory that grows with the text alone.

Logits of all positions never exist at the same time, and a long text is encoded in windows.
B sentences of T tokens; P is the projection size, V the vocabulary, N any number of positions.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from elmo_hf.hub.consistency import check_agreement
from elmo_hf.kernels import constant_weights
from elmo_hf.model.modeling_elmo import pack_tokens

# Tokens that the character encoder and the LSTMs see at one time: the original model needs 0.2 MB for each.
TOKENS_AT_ONCE = 2048
# Logits that exist at one time: more than fit near a processor are slower to compute. But a large vocabulary's weights
# should not be fetched for a row or two: 32 rows of 800,000 words are 0.1 GB.
LOGITS_AT_ONCE = 2**20
ROWS_AT_LEAST = 32
NEEDED = "Expected an ElmoForPreTraining, from `elmo-hf pretrain` or `elmo-hf convert` with --vocabulary and --softmax"


def check_language_model(model: PreTrainedModel, tokenizer: Any):
    """Raises unless the model has a softmax and the tokenizer a word for each of its rows."""
    if model.get_output_embeddings() is None:
        raise ValueError(f"This {type(model).__name__} has no softmax over words. {NEEDED}.")
    if tokenizer.word_vocabulary is None:
        raise ValueError(
            "The tokenizer has no vocabulary, so that a row of the softmax stands for no word. Expected a "
            "tokenizer with it, ElmoTokenizer.from_pretrained(..., word_vocabulary=FILE)."
        )
    check_agreement(model.config, tokenizer, needs_words=True)
    _ = tokenizer.word_lines  # complains of a vocabulary without <S>, </S> or <UNK>


@torch.no_grad()
@constant_weights()
def top_layers(
    model: PreTrainedModel, input_ids: torch.Tensor, attention_mask: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """The top layer (B, T, P) of each direction; the words are padded on the right.

    Both directions read in windows from their own end, the state carried from one to the next: the same as in one
    go, but what the inner layers need is freed after each window.
    """
    tokens, mask = encode(model, input_ids, attention_mask)
    backward = reversed_rows(tokens, mask)
    parts, states = [], None
    for window in _windows(mask):
        tops, states = read_window(model, tokens[:, window], mask[:, window], backward[:, window], states)
        parts.append(tops)
    directions = [torch.cat(tops, 1) for tops in zip(*parts, strict=True)]
    return (directions[0], *(reversed_rows(top, mask) for top in directions[1:]))


def read_window(
    model: PreTrainedModel, tokens: torch.Tensor, mask: torch.Tensor, backward_tokens: torch.Tensor, states: Any = None
) -> tuple[list[torch.Tensor], Any]:
    """The top layer (B, T, P) of each direction for token vectors (B, T, P), and the states after the last token.

    The backward direction reads `backward_tokens`, in the order in which it reads; its top layer is in the same order.
    """
    packing = pack_tokens(mask)
    inputs = [packing.pack(tokens), packing.pack(backward_tokens)][: model.config.num_directions]
    elmo: Any = model.elmo
    outputs, states = elmo.bilm(inputs, packing, states)
    return [packing.unpack(top) for top in outputs[-1]], states


@torch.no_grad()
def encode(
    model: PreTrainedModel, input_ids: torch.Tensor, attention_mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token vectors (B, T, P) and their mask as bool, on the model's device; a few tokens at a time."""
    device = next(model.parameters()).device
    mask = attention_mask.bool().to(device)
    elmo: Any = model.elmo
    parts = [elmo.encode_tokens(input_ids[:, window].to(device), mask[:, window])[0] for window in _windows(mask)]
    return torch.cat(parts, 1), mask


def _windows(mask: torch.Tensor) -> list[slice]:
    rows, length = mask.shape
    step = max(TOKENS_AT_ONCE // max(rows, 1), 1)
    return [slice(start, start + step) for start in range(0, length, step)]


def reversed_rows(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Each row of (B, T, ...) from its last token to its first; padding, on the right, stays where it is."""
    places = torch.arange(mask.shape[1], device=mask.device)
    mirrored = mask.sum(1, keepdim=True) - 1 - places  # (B, T), negative in padding
    index = torch.where(mirrored < 0, places, mirrored)
    return x[torch.arange(len(x), device=x.device)[:, None], index]


@torch.no_grad()
def log_probabilities(model: PreTrainedModel, rows: Sequence[torch.Tensor], words: torch.Tensor) -> torch.Tensor:
    """Log probabilities (N, 1 or 3) of the words (N,), lines of the vocabulary, by what `distributions` gives."""
    words = words[:, None].to(rows[0].device)
    # Made at once: small results kept between large tables that come and go would leave the memory full of holes.
    results = rows[0].new_empty(len(words), 1 if len(rows) == 1 else 3, dtype=torch.float64)
    for result, these, *tops in zip(*(_parts(model, x) for x in (results, words, *rows)), strict=True):
        for column, every in enumerate(distributions(model, tops)):
            result[:, column] = every.gather(1, these)[:, 0]
    return results


@torch.no_grad()
def best_words(
    model: PreTrainedModel, rows: Sequence[torch.Tensor], k: int, never: list[int]
) -> Iterator[tuple[list[int], list[list[float]]]]:
    """For each position the k likeliest words, as lines of the vocabulary, and their scores.

    Args:
        rows: as `distributions` takes them; the first of what that gives says which words are the likeliest.
        never: lines of the vocabulary that are not proposed.
    """
    k = min(k, model.config.vocab_size - len(never))
    for parts in zip(*(_parts(model, top) for top in rows), strict=True):
        each = distributions(model, parts)  # (n, V)
        lines = each[0].index_fill(1, torch.tensor(never, device=each[0].device).long(), -torch.inf).topk(k).indices
        scores = torch.stack([scores_of_words.gather(1, lines) for scores_of_words in each], -1)  # (n, k, 1 or 3)
        yield from zip(lines.tolist(), scores.tolist(), strict=True)


def distributions(model: PreTrainedModel, rows: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Log probabilities (N, V) of every word, for few enough positions to hold them.

    Args:
        rows: top layers (N, P). Those of one direction give one distribution. Those of both give three: the sum of
            both log probabilities, normalised over the vocabulary, and each by itself.
    """
    each = [torch.log_softmax(model.get_output_embeddings()(top).float(), -1) for top in rows]
    return each if len(each) == 1 else [torch.log_softmax(each[0] + each[1], -1), *each]


def _parts(model: PreTrainedModel, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.split(max(LOGITS_AT_ONCE // model.config.vocab_size, ROWS_AT_LEAST))
