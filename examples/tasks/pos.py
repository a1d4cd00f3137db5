"""Parts of speech: one linear layer on files in CoNLL-U. Prints accuracy; --elmo none is --vectors alone."""

from common import load, options, parts, result, train
from transformers import DataCollatorForTokenClassification

from elmo_hf import ElmoForTokenClassification, encode_words, label_names, read_conllu


def accuracy(prediction):
    logits, labels = prediction
    return {"accuracy": float((logits.argmax(-1) == labels)[labels != -100].mean())}


def main(arguments=None):
    args = options(__doc__, epochs=3, lr=0.005, places=("none", "input")).parse_args(arguments)
    args.preset = "paper"  # a linear layer has one size
    data, test = parts(args, read_conllu(args.train), read_conllu(args.test))
    words = {word for sentences in (data, test) for tokens in sentences["tokens"] for word in tokens}
    names = label_names(data, test, column="upos")
    model, tokenizer = load(args, ElmoForTokenClassification, "linear", words, names)
    settings = {"tokenizer": tokenizer, "label2id": model.config.label2id, "labels": "upos"}
    data, test = (
        rows.map(encode_words, batched=True, fn_kwargs=settings, remove_columns=rows.column_names)
        for rows in (data, test)
    )
    trainer = train(args, model, tokenizer, data, DataCollatorForTokenClassification(tokenizer), accuracy)
    return result(args, model, accuracy=100 * trainer.evaluate(test)["eval_accuracy"])


if __name__ == "__main__":
    main()
