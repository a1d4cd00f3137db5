"""From annotated files to training: CoNLL readers, labels at input positions, entity scores."""

import gzip
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
IGNORED = -100  # what the losses of transformers leave out


def read_conll(
    path: str | os.PathLike,
    columns: Mapping[str, int] | None = None,
    separator: str | None = None,
    comment: str | None = None,
) -> Any:
    """Reads a file with a word a line, its labels beside it, and empty lines between sentences.

    Args:
        path: the file, UTF-8; `.gz` is unpacked.
        columns: the number of the column, from 0 or from -1 for the last, of each column of the result. By default
            `{"tokens": 0, "labels": -1}`.
        separator: what stands between columns; None for any run of spaces and tabs.
        comment: lines that begin with this are left out. None keeps all, because `#hashtag` is a word too.

    Returns:
        a `datasets.Dataset`, a sentence a row, each column a list of strings. Lines of `-DOCSTART-` are no words.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf import read_conll
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.conll")
    >>> _ = path.write_text("Rome B-LOC\\nburns O\\n\\nAh O\\n")
    >>> read_conll(path)[:]
    {'tokens': [['Rome', 'burns'], ['Ah']], 'labels': [['B-LOC', 'O'], ['O']]}

    ```
    """
    columns = {"tokens": 0, "labels": -1} if columns is None else columns
    rows = {name: [] for name in columns}
    for sentence in _sentences(path, comment):
        split = [(number, _columns(line, separator)) for number, line in sentence]
        first, width = split[0][0], len(split[0][1])
        for number, fields in split:
            if len(fields) != width:
                raise ValueError(
                    f"{path}, line {number}: {_count(len(fields), 'column')}, but line {first} of the same sentence "
                    f"has {width}; accepted is one number of columns in a sentence."
                )
        for name, place in columns.items():
            if not -width <= place < width:
                raise ValueError(
                    f"{path}, line {first}: {_count(width, 'column')}, so there is no column {place} for `{name}`."
                )
            rows[name].append([fields[place] for _, fields in split])
    return _dataset(rows)


def read_conllu(path: str | os.PathLike, columns: Sequence[str] = ("upos",)) -> Any:
    """Reads CoNLL-U, the format of Universal Dependencies.

    Words are the syntactic ones, which carry the annotation: the lines of multiword tokens (`3-4`) and of empty
    nodes (`8.1`) are left out.

    Args:
        path: the file, UTF-8; `.gz` is unpacked.
        columns: what to keep beside the words: `"lemma"`, `"upos"`, `"xpos"`, `"feats"`, `"head"`, `"deprel"`,
            `"deps"`, `"misc"`.

    Returns:
        a `datasets.Dataset`, a sentence a row: `tokens` and the named columns, each a list of strings.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf import read_conllu
    >>> lines = ["# text = I'm", "1-2 I'm _ _ _ _ _ _ _ _", "1 I I PRON _ _ _ _ _ _", "2 'm be AUX _ _ _ _ _ _"]
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.conllu")
    >>> _ = path.write_text("\\n".join(lines[:1] + [line.replace(" ", "\\t") for line in lines[1:]]))
    >>> read_conllu(path)[0]
    {'tokens': ['I', "'m"], 'upos': ['PRON', 'AUX']}

    ```
    """
    unknown = [name for name in columns if name not in CONLLU_COLUMNS[2:]]
    if unknown:
        accepted = ", ".join(CONLLU_COLUMNS[2:])
        raise ValueError(f"CoNLL-U has no column {unknown[0]!r} beside the words; it has {accepted}.")
    places = {"tokens": CONLLU_COLUMNS.index("form"), **{name: CONLLU_COLUMNS.index(name) for name in columns}}
    rows = {name: [] for name in places}
    for sentence in _sentences(path, comment="#"):
        words = _conllu_words(path, sentence)
        for name, place in places.items():
            rows[name].append([fields[place] for fields in words])
    return _dataset(rows)


def label_names(*datasets: Any, column: str = "labels") -> list[str]:
    """All labels of the datasets in a fixed order: `O` first, the others sorted.

    Example:

    ```python
    >>> from elmo_hf import label_names
    >>> label_names({"labels": [["O", "B-LOC"]]}, {"labels": [["B-PER"]]})
    ['O', 'B-LOC', 'B-PER']

    ```
    """
    found = {label for dataset in datasets for labels in dataset[column] for label in labels}
    return sorted(found, key=lambda label: (label != "O", label))


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
            f"There are {len(labels)} labels, but at least {last + 1} words; accepted is a label for each word."
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
    numbers = [_numbers(words, some, label2id) for words, some in zip(batch[tokens], batch[labels], strict=True)]
    rows["labels"] = [align_labels(encoded.word_ids(row), numbers[sample]) for row, sample in enumerate(samples)]
    return rows


def entity_metrics(names: Mapping[int, str] | Sequence[str]) -> Callable[[Any], dict[str, float]]:
    """The `compute_metrics` of a Trainer: precision, recall and F1 of whole entities, as conlleval counts them.

    Args:
        names: the label of each number, `model.config.id2label`, in a scheme such as `B-LOC`, `I-LOC`, `O`.

    Example:

    ```python
    >>> import numpy as np
    >>> from elmo_hf import entity_metrics
    >>> logits, labels = np.eye(3)[[[0, 1, 2, 0]]], np.array([[-100, 1, 2, -100]])
    >>> entity_metrics(["O", "B-LOC", "I-LOC"])((logits, labels))
    {'precision': 1.0, 'recall': 1.0, 'f1': 1.0, 'accuracy': 1.0}

    ```
    """
    try:
        from seqeval import metrics
    except ImportError as error:
        raise ImportError(
            "entity_metrics counts entities with seqeval, which is not installed: pip install 'elmo-hf[train]'."
        ) from error

    def compute(prediction: Any) -> dict[str, float]:
        logits, labels = prediction  # (N, T, num_labels), (N, T)
        pairs = list(zip(np.argmax(logits, -1), labels, strict=True))
        found = [[names[int(label)] for label in guess[gold != IGNORED]] for guess, gold in pairs]
        wanted = [[names[int(label)] for label in gold[gold != IGNORED]] for _, gold in pairs]
        scores = {name: getattr(metrics, f"{name}_score") for name in ("precision", "recall", "f1")}
        result = {name: float(score(wanted, found, zero_division=0)) for name, score in scores.items()}
        return {**result, "accuracy": float(metrics.accuracy_score(wanted, found))}

    return compute


def _sentences(path: str | os.PathLike, comment: str | None) -> Iterator[list[tuple[int, str]]]:
    """The numbered lines of each sentence."""
    sentence = []
    opened = gzip.open if os.fspath(path).endswith(".gz") else open
    with opened(path, "rb") as file:
        # Read as bytes: lines end at "\n" only, and bytes that are no text have a line to be named with.
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise ValueError(f"{path}, line {number}: {raw[:40]!r} is not UTF-8, which is accepted.") from error
            if not line.strip() or line.startswith("-DOCSTART-"):
                if sentence:
                    yield sentence
                sentence = []
            elif comment is None or not line.startswith(comment):
                sentence.append((number, line))
    if sentence:
        yield sentence


def _columns(line: str, separator: str | None) -> list[str]:
    # str.split() would also part words at the spaces that Unicode has beside these two.
    return re.split(r"[ \t]+", line.strip(" \t")) if separator is None else line.split(separator)


def _conllu_words(path: str | os.PathLike, sentence: list[tuple[int, str]]) -> list[list[str]]:
    """The ten fields of each syntactic word."""
    words = []
    for number, line in sentence:
        fields = line.split("\t")
        if len(fields) != len(CONLLU_COLUMNS):
            raise ValueError(
                f"{path}, line {number}: {_count(len(fields), 'column')} between tabs; accepted are CoNLL-U's ten."
            )
        if re.fullmatch(r"\d+[-.]\d+", fields[0]):
            continue
        if fields[0] != str(len(words) + 1):
            raise ValueError(
                f"{path}, line {number}: the word's number is {fields[0]!r}; accepted are {len(words) + 1}, the next "
                "one, ranges as 3-4, and empty nodes as 8.1."
            )
        words.append(fields)
    return words


def _dataset(rows: dict[str, list[list[str]]]) -> Any:
    # Imported here: most users of the package read no annotated file, and it takes a second.
    from datasets import Dataset, Features, List, Value

    return Dataset.from_dict(rows, features=Features({name: List(Value("string")) for name in rows}))


def _numbers(words: Sequence[str], labels: Sequence[str], label2id: Mapping[str, int]) -> list[int]:
    if len(words) != len(labels):
        raise ValueError(
            f"The sentence {' '.join(words[:8])!r} has {_count(len(words), 'word')} and "
            f"{_count(len(labels), 'label')}; accepted is a label for each word."
        )
    unknown = [label for label in labels if label not in label2id]
    if unknown:
        raise ValueError(f"The label {unknown[0]!r} is not among the model's: {', '.join(label2id)}.")
    return [label2id[label] for label in labels]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)


__all__ = ["align_labels", "encode_words", "entity_metrics", "label_names", "read_conll", "read_conllu"]
