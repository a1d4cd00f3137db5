"""Coreference: spans and antecedents on files in CoNLL 2012's columns. Prints the F1 of CoNLL.

--train and --test are folders of *.conll, archives of them (LitBank's tar.xz as it is), or lists of files. Given the
same one twice, every tenth file is scored and the others are trained on, so with LitBank the ten novels that the
bundled model has not read. Documents are trained on and scored in parts, one part a step.
"""

from pathlib import Path
from typing import Any

from common import recipe

from elmo_hf.tasks.coreference.conll2012 import coreference_files
from elmo_hf.tasks.coreference.task import Documents


def read(task: Any, train: str, test: str) -> tuple[Documents, Documents]:
    """The documents to train on and those to score; if both are of one place, every tenth file is scored.

    Files count by the number their names begin with: of LitBank's hundred, the bundled model has not read the novels
    of these ten.
    """
    data = coreference_files(train)
    if Path(train).resolve() == Path(test).resolve():
        names = [*data][:: max(len(data) // 10, 2)]
        scored = {name: data.pop(name) for name in names}
    else:
        scored = coreference_files(test)
    both = [[document for documents in files.values() for document in documents] for files in (data, scored)]
    return Documents(both[0]), Documents(both[1])


main = recipe("coreference", __doc__, epochs=5, lr=0.001, batch_size=1, read=read)

if __name__ == "__main__":
    main()
