"""Entities: a biLSTM-CRF on files in CoNLL's columns, as WNUT17. Prints F1 of whole entities."""

from common import load, options, parts, result, train
from transformers import DataCollatorForTokenClassification

from elmo_hf import ElmoForTokenClassification, encode_words, entity_metrics, label_names, read_conll


def main(arguments=None):
    args = options(__doc__, epochs=20, lr=0.01).parse_args(arguments)
    data, test = parts(args, read_conll(args.train), read_conll(args.test))
    words = {word for sentences in (data, test) for tokens in sentences["tokens"] for word in tokens}
    model, tokenizer = load(args, ElmoForTokenClassification, "bilstm-crf", words, label_names(data, test))
    settings = {"tokenizer": tokenizer, "label2id": model.config.label2id}
    data, test = (
        rows.map(encode_words, batched=True, fn_kwargs=settings, remove_columns=rows.column_names)
        for rows in (data, test)
    )
    collator, metrics = DataCollatorForTokenClassification(tokenizer), entity_metrics(model.config.id2label)
    trainer = train(args, model, tokenizer, data, collator, metrics)
    return result(args, model, f1=100 * trainer.evaluate(test)["eval_f1"])


if __name__ == "__main__":
    main()
