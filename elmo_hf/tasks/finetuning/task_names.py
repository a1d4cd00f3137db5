"""The names of tasks, and the tasks that models were trained for."""

from importlib import import_module
from typing import Any

from .task import ColumnChoice, Task

# Name -> module and class.
TASKS = {
    "ner": ("tagging.task", "NerTask"),
    "pos": ("tagging.task", "PosTask"),
    "tagging": ("tagging.task", "TaggingTask"),
    "classification": ("classification.task", "ClassificationTask"),
    "sentiment": ("classification.task", "SentimentTask"),
    "regression": ("classification.regression", "RegressionTask"),
    "inference": ("classification.task", "InferenceTask"),
    "srl": ("srl.task", "SrlTask"),
    "questions": ("questions.task", "QuestionsTask"),
    "coreference": ("coreference.task", "CoreferenceTask"),
}


def task_names() -> list[str]:
    """The names that `finetune` takes.

    Example:

    ```python
    >>> from elmo_hf.tasks.finetuning.task_names import task_names
    >>> "ner" in task_names()
    True

    ```
    """
    return list(TASKS)


def find_task(name: str, columns: ColumnChoice | None = None) -> Task:
    """The task of a name."""
    if name not in TASKS:
        raise ValueError(f"Invalid task: {name!r}. Expected {', '.join(TASKS)}.")
    module, class_name = TASKS[name]
    return getattr(import_module(f"elmo_hf.tasks.{module}"), class_name)(columns)


def task_of_model(model: Any, columns: ColumnChoice | None = None) -> Task:
    """The task that a model with a head was trained for, told by its class, its head and its labels."""
    from elmo_hf.tasks.tagging.spans import has_span_labels

    names = [base.__name__ for base in type(model).__mro__]
    labels = list(model.config.id2label.values())
    head = model.config.head["type"]
    if "ElmoForTokenClassification" in names:
        name = "srl" if head == "srl" else "ner" if has_span_labels(labels) else "tagging"
    elif "ElmoForSequenceClassification" in names:
        name = "regression" if model.num_labels == 1 else "classification"
    else:
        name = {"ElmoForQuestionAnswering": "questions", "ElmoForCoreference": "coreference"}[names[0]]
    task = find_task(name, columns)
    task.use_labels(labels)
    return task


__all__ = ["TASKS", "find_task", "task_names", "task_of_model"]
