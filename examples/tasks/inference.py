"""Inference: ESIM on JSON lines of SNLI. Prints accuracy."""

from common import load, options, parts, result, train
from sentiment import accuracy
from transformers import DataCollatorWithPadding

from elmo_hf import ElmoForSequenceClassification
from elmo_hf.tasks.inference.snli import INFERENCES, read_snli


def main(arguments=None):
    args = options(__doc__, epochs=5, lr=0.003).parse_args(arguments)
    data, test = parts(args, read_snli(args.train), read_snli(args.test))
    words = {
        w for pairs in (data, test) for side in ("premise", "hypothesis") for text in pairs[side] for w in text.split()
    }
    model, tokenizer = load(args, ElmoForSequenceClassification, "esim", words, list(INFERENCES))

    def encode(batch):
        rows = tokenizer(batch["premise"], batch["hypothesis"], return_token_type_ids=True)
        return {**rows, "labels": [INFERENCES.index(label) for label in batch["label"]]}

    data, test = (rows.map(encode, batched=True, remove_columns=rows.column_names) for rows in (data, test))
    trainer = train(args, model, tokenizer, data, DataCollatorWithPadding(tokenizer), accuracy)
    return result(args, model, accuracy=100 * trainer.evaluate(test)["eval_accuracy"])


if __name__ == "__main__":
    main()
