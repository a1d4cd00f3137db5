"""Files of SQuAD, and answers at input positions."""

import json
import os
from collections.abc import Mapping
from typing import Any

from elmo_hf.text.files import opened


def read_squad(path: str | os.PathLike) -> Any:
    """Reads SQuAD, 1.1 or 2.0: `data`, `paragraphs`, `qas`.

    Returns:
        a `datasets.Dataset`, a question a row: `id`, `title`, `question`, `context`, `answers` (texts, none for a
        question without an answer) and `answer_starts`.

    Example:

    ```python
    >>> import json, pathlib, tempfile
    >>> from elmo_hf.tasks.questions.squad import read_squad
    >>> question = {"id": "1", "question": "Who?", "answers": [{"text": "Ann", "answer_start": 0}]}
    >>> paragraphs = [{"context": "Ann came.", "qas": [question]}]
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.json")
    >>> _ = path.write_text(json.dumps({"data": [{"title": "T", "paragraphs": paragraphs}]}))
    >>> read_squad(path)[0]["answers"]
    ['Ann']

    ```
    """
    with opened(path) as (file, _):
        try:
            articles = json.load(file)["data"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is no file of SQuAD ({error!r}). Expected JSON with `data`.") from None
    names = ("id", "title", "question", "context", "answers", "answer_starts")
    rows: dict[str, list[Any]] = {name: [] for name in names}
    for article in articles:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                for answer in question["answers"]:
                    begin = answer["answer_start"]
                    if paragraph["context"][begin : begin + len(answer["text"])] != answer["text"]:
                        raise ValueError(f"{path}, question {question['id']}: {answer['text']!r} is not at {begin}.")
                texts = [answer["text"] for answer in question["answers"]]
                starts = [answer["answer_start"] for answer in question["answers"]]
                values = (
                    question["id"],
                    article.get("title", ""),
                    question["question"],
                    paragraph["context"],
                    texts,
                    starts,
                )
                for name, value in zip(names, values, strict=True):
                    rows[name].append(value)
    return _dataset(rows)


def dataset_of_questions(columns: dict[str, list[Any]], where: str) -> Any:
    """Columns as of the dataset `squad` (`question`, `context`, `answers` with `text` and `answer_start`) -> questions
    as [`read_squad`] returns them."""
    missing = [name for name in ("question", "context", "answers") if name not in columns]
    if missing:
        raise ValueError(
            f"{where} has no column {missing[0]!r}: its columns are {', '.join(map(repr, columns))}. Expected "
            "question, context and answers, as SQuAD's."
        )
    answers = columns["answers"]
    texts = [answer["text"] if isinstance(answer, dict) else answer for answer in answers]
    starts = columns.get("answer_starts") or [answer["answer_start"] for answer in answers]
    count = len(answers)
    return _dataset(
        {
            "id": [str(number) for number in columns.get("id", range(count))],
            "title": columns.get("title", [""] * count),
            "question": columns["question"],
            "context": columns["context"],
            "answers": texts,
            "answer_starts": starts,
        }
    )


def _dataset(rows: dict[str, list[Any]]) -> Any:
    from datasets import Dataset, Features, List, Value

    lists = {"answers": List(Value("string")), "answer_starts": List(Value("int64"))}
    return Dataset.from_dict(rows, features=Features({name: lists.get(name, Value("string")) for name in rows}))


def encode_answers(
    batch: Mapping[str, Any], tokenizer: Any, max_length: int = 400, no_answer: bool = False
) -> dict[str, list]:
    """Rows of [`read_squad`] -> what ElmoForQuestionAnswering trains on; made for `Dataset.map(..., batched=True)`.

    The first answer counts. Passages are cut at `max_length`; a question whose answer is cut off, or that has none, is
    left out, or with `no_answer` is one without an answer.

    Example:

    ```python
    >>> from elmo_hf import ElmoTokenizer
    >>> from elmo_hf.tasks.questions.squad import encode_answers
    >>> row = {"question": ["Who ?"], "context": ["Ann Lee came."], "answers": [["Lee"]], "answer_starts": [[4]]}
    >>> encode_answers(row, ElmoTokenizer())["start_positions"]
    [6]

    ```
    """
    options = {"truncation": "only_second", "max_length": max_length, "return_offsets_mapping": True}
    encoded = tokenizer(batch["question"], batch["context"], return_token_type_ids=True, **options)
    offsets, special = encoded.pop("offset_mapping"), encoded["token_type_ids"]
    rows: dict[str, list] = {name: [] for name in (*encoded, "start_positions", "end_positions")}
    for number, (texts, starts) in enumerate(zip(batch["answers"], batch["answer_starts"], strict=True)):
        span = (0, 0)
        if texts:
            words = [
                place
                for place, (begin, end) in enumerate(offsets[number])
                if special[number][place] and end > starts[0] and begin < starts[0] + len(texts[0]) and end > begin
            ]
            whole = words and offsets[number][words[-1]][1] >= starts[0] + len(texts[0])
            span = (words[0], words[-1]) if whole else (0, 0)
        if span == (0, 0) and not no_answer:
            continue
        for name in encoded:
            rows[name].append(encoded[name][number])
        rows["start_positions"].append(span[0])
        rows["end_positions"].append(span[1])
    return rows


__all__ = ["encode_answers", "read_squad"]
