"""Semantic roles: interleaved highway LSTMs on JSON lines of words and frames. Prints F1 of whole arguments."""

from common import load, options, parts, result, train
from transformers import DataCollatorForTokenClassification

from elmo_hf import ElmoForTokenClassification, label_names
from elmo_hf.tasks.srl.frames import encode_predicates, read_srl
from elmo_hf.tasks.srl.metrics import role_metrics


def main(arguments=None):
    args = options(__doc__, epochs=4, lr=0.01).parse_args(arguments)
    data, test = parts(args, read_srl(args.train), read_srl(args.test))
    words = {word for frames in (data, test) for tokens in frames["tokens"] for word in tokens}
    model, tokenizer = load(args, ElmoForTokenClassification, "srl", words, label_names(data, test))
    settings = {"tokenizer": tokenizer, "label2id": model.config.label2id}
    data, test = (
        rows.map(encode_predicates, batched=True, fn_kwargs=settings, remove_columns=rows.column_names)
        for rows in (data, test)
    )
    collator, metrics = DataCollatorForTokenClassification(tokenizer), role_metrics(model.config.id2label)
    trainer = train(args, model, tokenizer, data, collator, metrics)
    return result(args, model, f1=100 * trainer.evaluate(test)["eval_f1"])


if __name__ == "__main__":
    main()
