"""Report on annotated data: labels with counts, duplicates, imbalance, labels that train lacks."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from elmo_hf.text.files import excerpt, plural

from .task import Task

# Labels that a report lists, and from how many times as many on a pair of labels is called imbalanced.
LISTED_LABELS = 12
IMBALANCE = 50


def describe_examples(task: Task, part: str, examples: Any, where: str) -> str:
    """One line: how many examples, words and labels a file holds.

    Example:

    ```python
    >>> from elmo_hf.tasks.finetuning.data_report import describe_examples
    >>> from elmo_hf.tasks.tagging.task import TaggingTask
    >>> task = TaggingTask()
    >>> rows = task.from_rows([{"tokens": ["Rome", "burns"], "labels": ["NOUN", "VERB"]}])
    >>> describe_examples(task, "train", rows, "tiny.jsonl")
    'train: 1 sentence, 2 words in tiny.jsonl; 2 labels: NOUN 1, VERB 1'

    ```
    """
    words = sum(len(words) for example in examples for words in task.texts(example))
    line = f"{part}: {plural(len(examples), task.example_name)}, {plural(words, 'word')} in {where}"
    counts = task.label_counts(examples)
    if not counts:
        return line
    listed = ", ".join(f"{excerpt(str(name), 30)} {count:,}" for name, count in counts.most_common(LISTED_LABELS))
    more = f", and {len(counts) - LISTED_LABELS:,} more" if len(counts) > LISTED_LABELS else ""
    return f"{line}; {plural(len(counts), 'label')}: {listed}{more}"


def warnings_about(task: Task, parts: dict[str, Any]) -> Iterator[str]:
    """Sentences about duplicates, labels that train lacks, and imbalance.

    Args:
        task: the task.
        parts: prepared examples of `"train"`, and if there are any of `"dev"` and `"test"`.
    """
    train = parts["train"]
    keys = Counter(task.key(example) for example in train)
    repeated = sum(keys.values()) - len(keys)
    if repeated:
        yield f"{share_of(repeated, len(train), task)} of train repeat an earlier one."
    counts = task.label_counts(train)
    for part, examples in parts.items():
        yield from task.notes(part, examples)
        if part == "train":
            continue
        shared = sum(task.key(example) in keys for example in examples)
        if shared:
            share = share_of(shared, len(examples), task)
            yield f"{share} of {part} are in train too: its scores are too high for new text."
        labels = task.label_counts(examples)
        lacking = Counter({name: n for name, n in labels.items() if name not in counts})
        if counts and lacking:
            names = ", ".join(f"{excerpt(str(name), 30)} ({n:,})" for name, n in lacking.most_common(LISTED_LABELS))
            yield f"Labels of {part} that train lacks, and that no model can learn: {names}."
    counts.pop("O", None)  # of taggers: most words are outside of all spans
    if len(counts) > 1:
        (frequent, most), (rare, least) = counts.most_common()[0], counts.most_common()[-1]
        if most >= IMBALANCE * least:
            share = f"{most // least:,} times as frequent as {rare} ({least:,})"
            yield f"The labels are imbalanced: {frequent} is {share}."


def share_of(count: int, total: int, task: Task) -> str:
    """Some of all examples, as `"3 of 8 questions (37.5%)"`."""
    return f"{count:,} of {plural(total, task.example_name)} ({100 * count / total:.1f}%)"


def check_labels(task: Task, parts: dict[str, Any], names: dict[str, str]):
    """Raises ValueError if there is nothing to learn, or nothing that was learned to score.

    Args:
        task: the task.
        parts: examples of `"train"`, and if there are any of `"dev"` and `"test"`.
        names: of the files of the parts, for messages.
    """
    counts, where = task.label_counts(parts["train"]), names["train"]
    if task.has_labels and len(counts) < 2:
        only = f"every {task.item_name} has the label {[*counts][0]!r}" if counts else "there are no labels"
        raise ValueError(
            f"{where}: {only}, so there is nothing to learn. Expected at least two labels; does another column hold "
            "them (--column)?"
        )
    for part, examples in parts.items():
        others = task.label_counts(examples)
        if counts and others and not {*counts} & {*others}:
            listed = [", ".join(repr(label) for label in [*labels][:3]) for labels in (others, counts)]
            raise ValueError(
                f"{names[part]}: none of its labels ({listed[0]}) is one of {where} ({listed[1]}). Expected the same "
                "labels; does another column hold them (--column)?"
            )


__all__ = ["check_labels", "describe_examples", "share_of", "warnings_about"]
