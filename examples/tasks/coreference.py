"""Coreference: spans and antecedents on folders of files in CoNLL 2012's columns. Prints the F1 of CoNLL.

Documents are trained on in parts, one part a step.
"""

from pathlib import Path

import torch
from common import limited, load, options, result, train
from datasets import Dataset

from elmo_hf import ElmoForCoreference
from elmo_hf.text.coreference import coreference_scores, encode_document, parts_of, read_coreference


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


def read(folder):
    """The documents of a folder's files, or of a list of files, one a line."""
    path = Path(folder)
    files = sorted(path.glob("*conll")) if path.is_dir() else [path.parent / name for name in path.read_text().split()]
    return [document for file in files for document in read_coreference(file)]


def main(arguments=None):
    parser = options(__doc__, epochs=5, batch_size=1)
    parser.add_argument("--sentences", type=int, default=30, help="sentences of a part")
    args = parser.parse_args(arguments)
    documents = read(args.train), read(args.test)
    data, test = ([part for document in some for part in parts_of(document, args.sentences)] for some in documents)
    data = [data[n] for n in limited(Dataset.from_dict({"n": range(len(data))}), args.limit)["n"]]
    test = test[: args.test_limit]
    words = {word for part in (*data, *test) for sentence in part.sentences for word in sentence}
    model, tokenizer = load(args, ElmoForCoreference, "spans", words)
    train(args, model, tokenizer, Documents(data, tokenizer), one)
    model.eval()
    found = [model.clusters(tokenizer, part.sentences) for part in test]
    return result(args, model, **coreference_scores(found, [part.clusters for part in test]))


if __name__ == "__main__":
    main()
