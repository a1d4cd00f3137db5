"""Labels of words: their names, and where they stand among the positions that a model reads."""

from collections.abc import Mapping, Sequence
from typing import Any

from elmo_hf.text.files import plural

IGNORED = -100  # what the losses of transformers leave out


def label_names(*datasets: Any, column: str = "labels") -> list[str]:
    """All labels of the datasets in a fixed order: `O` first, the others sorted.

    Example:

    ```python
    >>> from elmo_hf import label_names
    >>> label_names({"labels": [["O", "B-LOC"]]}, {"labels": [["B-PER"]]})
    ['O', 'B-LOC', 'B-PER']

    ```
    """
    names = {label for dataset in datasets for labels in dataset[column] for label in labels}
    return sorted(names, key=lambda label: (label != "O", label))


def align_labels(word_ids: Sequence[int | None], labels: Sequence[int]) -> list[int]:
    """Labels of words -> labels of input positions, -100 where there is no word: `<S>`, `</S>` and padding.

    Example:

    ```python
    >>> from elmo_hf import ElmoTokenizer, align_labels
    >>> batch = ElmoTokenizer()([["New York", "sleeps"]], is_split_into_words=True)
    >>> align_labels(batch.word_ids(0), [3, 0])
    [-100, 3, 0, -100]

    ```
    """
    last = max((word for word in word_ids if word is not None), default=-1)
    if last >= len(labels):
        raise ValueError(
            f"There are {len(labels)} labels, but at least {last + 1} words. Expected a label for each word."
        )
    return [IGNORED if word is None else labels[word] for word in word_ids]


def encode_words(
    batch: Mapping[str, Any],
    tokenizer: Any,
    label2id: Mapping[str, int],
    tokens: str = "tokens",
    labels: str = "labels",
    **options: Any,
) -> dict[str, list]:
    """Rows of words and labels -> what a token classifier trains on; made for `Dataset.map(..., batched=True)`.

    Args:
        batch: lists of words and of labels, a sentence each.
        tokenizer: an ElmoTokenizer.
        label2id: `model.config.label2id`.
        tokens, labels: the columns of `batch` to read.
        options: for the tokenizer, as `truncation=True, max_length=128`; with `return_overflowing_tokens=True` a
            long sentence becomes several rows.

    Example:

    ```python
    >>> from datasets import Dataset
    >>> from elmo_hf import ElmoTokenizer, encode_words
    >>> sentences = Dataset.from_dict({"tokens": [["Rome", "burns"]], "labels": [["B-LOC", "O"]]})
    >>> settings = dict(tokenizer=ElmoTokenizer(), label2id={"O": 0, "B-LOC": 1})
    >>> rows = sentences.map(encode_words, batched=True, fn_kwargs=settings, remove_columns=sentences.column_names)
    >>> sorted(rows.column_names), rows[0]["labels"]
    (['attention_mask', 'input_ids', 'labels'], [-100, 1, 0, -100])

    ```
    """
    encoded = tokenizer(batch[tokens], is_split_into_words=True, **options)
    rows = dict(encoded)
    samples = rows.pop("overflow_to_sample_mapping", range(len(batch[tokens])))
    numbers = [_numbers(words, names, label2id) for words, names in zip(batch[tokens], batch[labels], strict=True)]
    rows["labels"] = [align_labels(encoded.word_ids(row), numbers[sample]) for row, sample in enumerate(samples)]
    return rows


def _numbers(words: Sequence[str], labels: Sequence[str], label2id: Mapping[str, int]) -> list[int]:
    if len(words) != len(labels):
        raise ValueError(
            f"The sentence {' '.join(words[:8])!r} has {plural(len(words), 'word')} and "
            f"{plural(len(labels), 'label')}. Expected a label for each word."
        )
    unknown = [label for label in labels if label not in label2id]
    if unknown:
        raise ValueError(f"The label {unknown[0]!r} is not among the model's: {', '.join(label2id)}.")
    return [label2id[label] for label in labels]


__all__ = ["align_labels", "encode_words", "label_names"]
