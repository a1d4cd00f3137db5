"""Coreference: spans and antecedents on files in CoNLL 2012's columns. Prints the F1 of CoNLL.

--train and --test are folders of *.conll, archives of them (LitBank's tar.xz as it is), or lists of files. Given the
same one twice, every tenth file is scored and the others are trained on, so with LitBank the ten novels that the
bundled model has not read. Documents are trained on and scored in parts, one part a step.
"""

from pathlib import Path

import torch
from common import load, options, parts, result, train
from datasets import Dataset

from elmo_hf import ElmoForCoreference
from elmo_hf.tasks.coreference.conll2012 import coreference_files, encode_document, parts_of
from elmo_hf.tasks.coreference.metrics import coreference_scores


class Documents(torch.utils.data.Dataset):
    """Parts of documents, encoded when they are asked for."""

    def __init__(self, parts, tokenizer):
        self.parts, self.tokenizer = parts, tokenizer

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, number):
        return encode_document(self.parts[number], self.tokenizer)


def one(documents):
    return documents[0]


def read(train, test):
    """The documents to train on and those to score; if both are of one place, every tenth file is scored.

    Files count by the number their names begin with: of LitBank's hundred, the bundled model has not read the novels
    of these ten.
    """
    data = coreference_files(train)
    if Path(train).resolve() == Path(test).resolve():
        scored = [*data][:: max(len(data) // 10, 2)]
        test = {name: data.pop(name) for name in scored}
    else:
        test = coreference_files(test)
    return [[document for documents in part.values() for document in documents] for part in (data, test)]


def main(arguments=None):
    parser = options(__doc__, epochs=5, batch_size=1)
    parser.add_argument("--sentences", type=int, default=30, help="sentences of a part")
    args = parser.parse_args(arguments)
    documents = read(args.train, args.test)
    data, test = ([part for document in some for part in parts_of(document, args.sentences)] for some in documents)
    numbers = parts(args, *(Dataset.from_dict({"n": range(len(some))}) for some in (data, test)))
    data, test = ([some[n] for n in chosen["n"]] for some, chosen in zip((data, test), numbers, strict=True))
    words = {word for part in (*data, *test) for sentence in part.sentences for word in sentence}
    model, tokenizer = load(args, ElmoForCoreference, "spans", words)
    train(args, model, tokenizer, Documents(data, tokenizer), one)
    model.eval()
    found = [model.clusters(tokenizer, part.sentences) for part in test]
    return result(args, model, **coreference_scores(found, [part.clusters for part in test]))


if __name__ == "__main__":
    main()
