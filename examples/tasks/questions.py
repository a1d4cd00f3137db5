"""Question answering: BiDAF with self-attention on a file of SQuAD. Prints exact match and F1.

Articles that the training file has too are left out of the test.
"""

from common import limited, load, options, result, train, training_part
from transformers import DataCollatorWithPadding

from elmo_hf import ElmoForQuestionAnswering, ElmoTokenizer
from elmo_hf.text.squad import encode_answers, read_squad, squad_scores


def main(arguments=None):
    parser = options(__doc__, epochs=3, batch_size=16)
    parser.add_argument("--max-length", type=int, default=300, help="positions of a question and its passage")
    args = parser.parse_args(arguments)
    data, test = read_squad(args.train), read_squad(args.test)
    data = training_part(args, data.filter(lambda row: bool(row["answers"])))
    contexts = set(data["context"])
    test = limited(test.filter(lambda row: row["answers"] and row["context"] not in contexts), args.test_limit)
    split = ElmoTokenizer.from_pretrained(args.model).split
    texts = [text for rows in (data, test) for name in ("question", "context") for text in set(rows[name])]
    model, tokenizer = load(args, ElmoForQuestionAnswering, "bidaf", {word for one in split(texts) for word in one})
    settings = {"tokenizer": tokenizer, "max_length": args.max_length}
    data = data.map(encode_answers, batched=True, fn_kwargs=settings, remove_columns=data.column_names)
    train(args, model, tokenizer, data, DataCollatorWithPadding(tokenizer))
    model.eval()
    found = [model.answer(tokenizer, row["question"], row["context"]).text for row in test]
    return result(args, model, **squad_scores(found, test["answers"]))


if __name__ == "__main__":
    main()
