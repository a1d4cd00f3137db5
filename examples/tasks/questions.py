"""Question answering: BiDAF with self-attention on a file of SQuAD. Prints exact match and F1.

Articles that the training file has too are left out of the test.
"""

from common import load, options, parts, result, train
from transformers import DataCollatorWithPadding

from elmo_hf import ElmoForQuestionAnswering, ElmoTokenizer
from elmo_hf.tasks.questions.metrics import squad_scores
from elmo_hf.tasks.questions.squad import encode_answers, read_squad


def read(train, test):
    """The questions with an answer, to train on and to score; both files may hold the same article in other parts."""
    data, test = read_squad(train), read_squad(test)
    known = {*data["title"], *data["context"]} - {""}
    test = test.filter(lambda row: row["answers"] and not known & {row["title"], row["context"]})
    return data.filter(lambda row: bool(row["answers"])), test


def main(arguments=None):
    parser = options(__doc__, epochs=3, batch_size=16)
    parser.add_argument("--max-length", type=int, default=300, help="positions of a question and its passage")
    args = parser.parse_args(arguments)
    data, test = parts(args, *read(args.train, args.test))
    split = ElmoTokenizer.from_pretrained(args.model).split
    texts = [text for rows in (data, test) for name in ("question", "context") for text in set(rows[name])]
    model, tokenizer = load(args, ElmoForQuestionAnswering, "bidaf", {word for one in split(texts) for word in one})
    settings = {"tokenizer": tokenizer, "max_length": args.max_length}
    data = data.map(encode_answers, batched=True, fn_kwargs=settings, remove_columns=data.column_names)
    train(args, model, tokenizer, data, DataCollatorWithPadding(tokenizer))
    model.eval()
    found = model.answers(tokenizer, test["question"][:], test["context"][:])
    return result(args, model, **squad_scores([answer.text for answer in found], test["answers"]))


if __name__ == "__main__":
    main()
