"""Question answering: BiDAF with self-attention on a file of SQuAD. Prints F1 and exact match.

Questions without an answer are left out, and articles that the training file has too are left out of the test.
"""

from typing import Any

from common import recipe

from elmo_hf.tasks.questions.squad import read_squad


def read(task: Any, train: str, test: str) -> tuple[Any, Any]:
    """The questions with an answer, to train on and to score; both files may hold the same article in other parts."""
    data, scored = read_squad(train), read_squad(test)
    known = {*data["title"], *data["context"]} - {""}
    scored = scored.filter(lambda row: row["answers"] and not known & {row["title"], row["context"]})
    return data.filter(lambda row: bool(row["answers"])), scored


main = recipe("questions", __doc__, epochs=3, lr=0.005, batch_size=16, read=read)

if __name__ == "__main__":
    main()
