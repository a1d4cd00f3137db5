"""The part of the demonstration that shows the taggers: words, parts of speech and entities in columns."""

from collections.abc import Iterator, Sequence

import torch

from elmo_hf.model.modeling_elmo_heads import ElmoForTokenClassification
from elmo_hf.model.tokenization_elmo import ElmoTokenizer

from . import bundled_model

# "refuse" and "permit" are verbs first and then nouns; "Charlotte" is a person and then a place.
SENTENCES = (
    "They refuse to permit us to obtain the refuse permit .",
    "My friend Charlotte moved to Charlotte , North Carolina .",
    "Angela Merkel met managers of Siemens in Berlin .",
)


class BundledTagger:
    """A tagger that comes with the package, for words between spaces.

    Example:

    ```python
    >>> from elmo_hf.bundled.tagger_demo import BundledTagger
    >>> BundledTagger("english-ner").labels("Ann Lee lives in Rome .".split())
    ['B-PER', 'I-PER', 'O', 'O', 'B-LOC', 'O']

    ```
    """

    def __init__(self, name: str):
        folder = bundled_model(name)
        self.model = ElmoForTokenClassification.from_pretrained(folder)
        self.tokenizer = ElmoTokenizer.from_pretrained(folder)

    @torch.inference_mode()
    def labels(self, words: Sequence[str]) -> list[str]:
        """The label of each word of a sentence."""
        batch = self.tokenizer([list(words)], is_split_into_words=True, return_tensors="pt")
        best = self.model(**batch).logits[0, 1:-1].argmax(-1).tolist()  # without <S> and </S>
        names: dict[int, str] = self.model.config.id2label  # type: ignore[assignment]  # never None in a config
        return [names[number] for number in best]


def tagged_lines() -> Iterator[str]:
    """For each sentence its words, their parts of speech, and the entities, in columns."""
    parts_of_speech, entities = BundledTagger("english-pos"), BundledTagger("english-ner")
    for sentence in SENTENCES:
        words = sentence.split()
        kinds = [label.removeprefix("B-").removeprefix("I-") for label in entities.labels(words)]
        rows = [words, parts_of_speech.labels(words), ["" if kind == "O" else kind for kind in kinds]]
        widths = [max(map(len, column)) + 1 for column in zip(*rows, strict=True)]
        for row in rows:
            line = "".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            if line:
                yield line
        yield ""


__all__ = ["BundledTagger", "tagged_lines"]
