"""Sentiment: the biattentive network on trees of the Stanford Sentiment Treebank. Prints accuracy of five classes."""

from common import load, options, parts, result, train
from transformers import DataCollatorWithPadding

from elmo_hf import ElmoForSequenceClassification
from elmo_hf.tasks.sentiment.trees import read_trees

NAMES = ["very negative", "negative", "neutral", "positive", "very positive"]


def accuracy(prediction):
    logits, labels = prediction
    return {"accuracy": float((logits.argmax(-1) == labels).mean())}


def main(arguments=None):
    args = options(__doc__, epochs=4, lr=0.01).parse_args(arguments)
    data, test = parts(args, read_trees(args.train), read_trees(args.test))
    words = {word for trees in (data, test) for tokens in trees["tokens"] for word in tokens}
    model, tokenizer = load(args, ElmoForSequenceClassification, "bcn", words, NAMES)

    def encode(batch):
        return {**tokenizer(batch["tokens"], is_split_into_words=True), "labels": batch["label"]}

    data, test = (rows.map(encode, batched=True, remove_columns=rows.column_names) for rows in (data, test))
    trainer = train(args, model, tokenizer, data, DataCollatorWithPadding(tokenizer), accuracy)
    return result(args, model, accuracy=100 * trainer.evaluate(test)["eval_accuracy"])


if __name__ == "__main__":
    main()
