"""finetune: trains a head on annotated data and keeps the best model; an interrupted run is resumed."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elmo_hf.kernels.sentence_cache import SentenceCache
    from elmo_hf.tasks.finetuning.trainer import FinetuneTrainer


def finetune(
    task: str,
    *,
    train: Any,
    dev: Any = None,
    test: Any = None,
    output: str | os.PathLike | None = None,
    model: str = "english",
    head: str | None = None,
    preset: str | None = None,
    elmo_at: str = "input",
    word_vectors: str | None = None,
    tune_bilm: bool = False,
    lora: bool = False,
    lr: float | None = None,
    bilm_lr: float | None = None,
    epochs: float | None = None,
    batch_size: int | None = None,
    patience: int | None = None,
    seed: int = 1,
    limit: int | float | None = None,
    max_length: int = 300,
    part_sentences: int = 30,
    phrases: bool = False,
    answerable_only: bool = False,
    mix_dropout: float | None = None,
    column: str | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    cache_megabytes: float = 2000,
    sentence_cache: "SentenceCache | None" = None,
    device: str | None = None,
    say: Callable[[str], Any] = print,
) -> "FinetuneTrainer":
    """Fine-tunes an ELMo on annotated data.

    The same call resumes a run that was interrupted, and ends with the same bytes.

    Args:
        task: `"ner"`, `"pos"`, `"tagging"`, `"classification"`, `"sentiment"`, `"regression"`, `"inference"`,
            `"srl"`, `"questions"` or `"coreference"`.
        train, dev, test: files, names of datasets, `datasets.Dataset`s or lists of dictionaries. Without `dev`, a
            tenth of the training data is held out, or the development split of a dataset is taken.
        output: the folder of the model. Checkpoints are in a folder beside it until the run is finished. None: nothing
            is kept but the returned Trainer.
        model: a folder, a repository of the Hub, or `"english"`, which comes with the package.
        head: the type of head. Default: by the task and the number of examples.
        preset: `"small"` or `"paper"`, the sizes of the head.
        elmo_at: where ELMo joins the head: `"input"`, `"output"`, `"both"` or `"none"`.
        word_vectors: a file of word vectors, which are concatenated to ELMo.
        tune_bilm: train the biLM too.
        lora: train low-rank adapters of the biLM, which are merged into it at the end; needs peft.
        lr, bilm_lr: the learning rates of the head and of the biLM.
        epochs: the maximum number of epochs.
        batch_size: examples in a batch.
        patience: stop after so many evaluations without a better one. Default: 3, and at least 300 steps.
        seed: of initial weights, dropout and order.
        limit: train on so many examples, or on this share of them if it is below 1.
        max_length: for questions, positions of a question and its passage; longer passages are cut for training.
        part_sentences: for coreference, sentences of a part of a document that are read at one time.
        phrases: for trees of sentiment, train on every labelled phrase; scored are whole sentences.
        answerable_only: for questions, leave out those without an answer.
        mix_dropout: dropout probability of ELMo's vectors. Default: by their size.
        column, text_column, pair_column: columns of labels, texts, and second texts of pairs. Default: by their names.
        cache_megabytes: memory for sentences that a frozen biLM has read.
        sentence_cache: a cache of this size that several runs on the same data share.
        device: as `"cuda"`. Default: a GPU if there is one.
        say: called with each line of the report.

    Returns:
        A Trainer that has been run. Its model is the best one; `trainer.scores` are those on dev and test.

    Example:

    ```python
    >>> from elmo_hf.tasks import finetune
    >>> rows = [{"text": "It rains.", "label": "bad"}, {"text": "The sun shines.", "label": "good"}] * 10
    >>> trainer = finetune("classification", train=rows, dev=rows, epochs=3, say=lambda line: None)
    >>> trainer.scores["dev"]["accuracy"]
    1.0

    ```
    """
    from elmo_hf.kernels.sentence_cache import SentenceCache

    from .run import FinetuneRun
    from .settings import FinetuneSettings
    from .task import ColumnChoice
    from .task_names import find_task

    settings = FinetuneSettings(
        model=model,
        head=head,
        preset=preset,
        elmo_at=elmo_at,
        word_vectors=word_vectors,
        tune_bilm=tune_bilm,
        lora=lora,
        lr=lr,
        bilm_lr=bilm_lr,
        epochs=epochs,
        batch_size=batch_size,
        patience=patience,
        seed=seed,
        limit=limit,
        max_length=max_length,
        part_sentences=part_sentences,
        phrases=phrases,
        answerable_only=answerable_only,
        mix_dropout=mix_dropout,
    )
    chosen = find_task(task, ColumnChoice(column, text_column, pair_column))
    settings.check(chosen.heads)
    run = FinetuneRun(chosen, {"train": train, "dev": dev, "test": test}, settings, output, say)
    if sentence_cache is None and cache_megabytes:
        sentence_cache = SentenceCache(cache_megabytes)
    return run(sentence_cache, device)


__all__ = ["finetune"]
