"""The SRL head: deep interleaved LSTMs with highways, He et al. 2017, *Deep semantic role labeling*.

x_t = [word vectors; ELMo; mark of the predicate]
h = InterleavedHighwayLstm(x)    p_t = softmax(W [h_t; ELMo'_t])
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import initialization as init

from elmo_hf.model.modeling_elmo_heads import ElmoHead, HeadInput
from elmo_hf.tasks.encoders import InterleavedHighwayLstm, only_words
from elmo_hf.tasks.settings import NetworkSettings
from elmo_hf.tasks.tagging.crf import best_scores, label_rules

CARD_EXAMPLE = """import elmo_hf
import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer

name = "{name}"
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForTokenClassification.from_pretrained(name)

words, predicate = ["She", "sold", "the", "house", "."], 1
batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
batch["token_type_ids"] = torch.zeros_like(batch["attention_mask"])
batch["token_type_ids"][0, predicate + 1] = 1  # <S> comes first
with torch.no_grad():
    labels = model(**batch).logits.argmax(-1)[0, 1:-1]
print([model.config.id2label[label] for label in labels.tolist()])
"""


class PredicateLstm(ElmoHead):
    """Labels the arguments of one predicate, which `token_type_ids` mark with 1.

    Each word's label is trained by itself; in evaluation mode an argmax of the logits is the best sequence that keeps
    the rules of BIO.
    """

    card_example = CARD_EXAMPLE

    @strict
    @dataclass(kw_only=True)
    class Settings(NetworkSettings):
        """
        Args:
            size: of each LSTM layer.
            layers: forward and backward by turns.
            dropout: of the recurrent state, one mask for a whole sentence.
            mark_size: of the vector that says whether a word is the predicate.
        """

        presets: ClassVar[dict[str, dict[str, Any]]] = {"small": {"size": 96, "layers": 2, "mark_size": 16}}

        size: int = 300
        layers: int = 8
        dropout: float | int = 0.1
        mark_size: int = 100

    def __init__(self, config: Any, settings: Any, input_size: int, output_size: int):
        super().__init__()
        self.marks = nn.Parameter(torch.zeros(2, settings.mark_size))
        size = input_size + settings.mark_size
        self.encoder = InterleavedHighwayLstm(size, settings.size, settings.layers, settings.dropout)
        self.linear = nn.Linear(settings.size + output_size, config.num_labels)
        self.rules = label_rules([config.id2label[number] for number in range(config.num_labels)])

    def initial_weights(self):
        """Initializes the weights."""
        init.normal_(self.marks)

    def logits(self, sentence: HeadInput) -> torch.Tensor:
        """Scores of the labels."""
        if sentence.marks is None:
            raise ValueError("The head 'srl' needs token_type_ids: 1 at the predicate, 0 elsewhere.")
        words = only_words(sentence)
        assert words.marks is not None
        x = torch.cat([words.x, self.marks[words.marks.clamp(0, 1)]], -1)
        h = self.encoder(x, words.mask)  # (B, W, size)
        return words.scatter(self.linear(words.with_output(h)))  # (B, T, num_labels)

    def decode(self, logits: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """The scores of the decoded labels."""
        none = logits.new_zeros(logits.shape[2], dtype=torch.float32)
        return best_scores(logits.log_softmax(-1), words, none.new_zeros(len(none), len(none)), none, none, self.rules)


__all__ = ["PredicateLstm"]
