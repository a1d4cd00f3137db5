"""The commands with hostile sentences, files and paths."""

import contextlib
import gzip
import random
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from small_models import small

from elmo_hf import ElmoForPreTraining, ElmoTokenizer
from fuzz.running import run

WORDS = ["<S>", "</S>", "<UNK>", "a", "b", "c", ".", "bank", "日"]
SENTENCES = [
    "",
    " ",
    "a",
    "a b c .",
    "a " * 40,
    "😀 👩‍👩‍👧 a",
    "日本 日 b",
    "\t\r\x0b\x1f",
    "<S> a </S>",
    "<UNK>",
    "--",
    "x" * 5000,
]
SENTENCES += [
    "a\u2028b\u2029c\x85d",
    "\ufeffa b",
    "e\u0301 a\u0300\u0300",
    "\u202ea b",
    "a\x00b \x00",
    "\udcff a",
    "$ 5's it 's",
    "['a']",
]
LABELLED = [
    "a\tO\nb\tB-X\n\n",
    "1\ta\ta\tNOUN\t_\t_\t0\troot\t_\t_\n\n",
    "a O\nb\n",
    "bank\tn%1\ta bank .\n" * 3,
    "<corpus/>",
]
PATHS = ["missing.txt", "a/b/c", "*.none", ".", "", "\x7f", "model", "/dev/null", "~", "x" * 300]
ENDINGS = [".txt", ".gz", ".xz", ".jsonl", ".parquet", ".conllu", ".xml", ".hdf5", ""]
SIMPLE = ("score", "perplexity", "predict", "substitute", "surprise", "similarity")
LONGER = ("embed", "index", "export", "probe", "senses", "weights", "neighbours")


@cache
def _model() -> Path:
    folder = Path(mkdtemp())
    small(ElmoForPreTraining, vocab_size=len(WORDS)).save_pretrained(folder)
    ElmoTokenizer(word_vocabulary=WORDS).save_pretrained(folder)
    return folder


def trial(rng: random.Random, folder: Path) -> str:
    """Runs a command with random arguments."""
    verb = rng.choice(SIMPLE * 3 + LONGER)
    arguments = _arguments(verb, rng, folder)
    if rng.random() < 0.05:
        arguments[rng.randrange(len(arguments))] = rng.choice([*PATHS, "--help", "-k", "--no-such", "-1", "0", "nan"])
    # An argument of a process holds no NUL.
    arguments = [str(argument).replace("\0", "") for argument in arguments]
    words = (
        ["analyse", verb]
        if verb in ("surprise", "similarity", "index", "probe", "senses", "weights", "neighbours")
        else [verb]
    )
    with contextlib.chdir(folder):
        code, _, err = run(*words, *arguments, stdin=_content(rng))
    assert "Traceback" not in err
    if code == 0:
        return "accepted"
    assert code in (1, 2, 130), code
    message = err.partition("Error: ")[2] if code == 1 else err
    assert message.strip() and "codec can't" not in message and "[Errno" not in message, err
    return message


def _arguments(verb: str, rng: random.Random, folder: Path) -> list:
    model = _model()
    if verb == "predict":
        return [model, _sentence(rng), *rng.choice([[], ["--before"], ["-k", rng.choice([1, 5, 10**9])]])]
    if verb == "substitute":
        return [model, _sentence(rng), rng.choice([0, 1, 3, 10**6, 10**20])]
    if verb == "similarity":
        chosen = [["--word", rng.choice(["a", "", "日", "x" * 100])], ["--position", rng.randrange(4)], []]
        more = rng.choice(chosen) + rng.choice([[], ["--layer", rng.choice([-9, 0, 2, 99])]])
        return [model, *(_sentence(rng) for _ in range(rng.randrange(1, 4))), *more]
    if verb == "score":
        return [
            model,
            *_files(rng, folder),
            *rng.choice([[], ["--words"], ["--errors", rng.choice(["replace", "no"])]]),
        ]
    if verb == "perplexity":
        streams = ["--streams", rng.choice([1, 3, 256, 10**5]), "--window", rng.choice([1, 20])]
        return [model, *_files(rng, folder), *rng.choice([[], streams])]
    if verb == "surprise":
        text = [option for _ in range(rng.randrange(1, 3)) for option in ("--text", _sentence(rng))]
        return [
            model,
            *(rng.choice([text, _files(rng, folder)])),
            *rng.choice([[], ["--html", folder / "page.html"], ["--json", folder / "a.json"]]),
        ]
    if verb == "embed":
        how = ["--processes", 1, "--layers", rng.choice(["all", "mix", "7", "0,1", "x"])]
        how += rng.choice([[], ["--tokenized"], ["--stateful"], ["--pooling", "mean"], ["--column", "text"]])
        return [model, _file(rng, folder), folder / rng.choice(["out", "out.hdf5", "text.txt/out", "model"]), *how]
    if verb == "index":
        return [model, *_files(rng, folder), "-o", folder / "index"]
    if verb == "export":
        return [rng.choice([model, folder, "english/x"]), folder / rng.choice(["out", "."])]
    if verb == "probe":
        return [model, *(_file(rng, folder, LABELLED) for _ in range(2)), "--epochs", 1]
    if verb == "senses":
        return [model, *(_file(rng, folder, LABELLED) for _ in range(2))]
    if verb == "neighbours":
        return [model, rng.choice([folder, model, folder / "x"]), _sentence(rng), "--word", "a"]
    return [rng.choice([model, folder, "missing"])]


def _sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(SENTENCES, k=rng.choice([1, 1, 1, 2, 3])))


def _content(rng: random.Random, lines: list[str] = SENTENCES) -> bytes:
    text = rng.choice(["\n", "\n", "\r\n", "\r", "\n\n"]).join(rng.choices(lines, k=rng.choice([0, 1, 1, 3, 20])))
    content = text.encode("utf-8", "surrogateescape")
    if rng.random() < 0.02:
        return b"a bank . " * 4000
    return content + rng.choice([b"", b"\n", b"\n\n", b"\xff\n", b"\0\n"])


def _file(rng: random.Random, folder: Path, lines: list[str] = SENTENCES) -> object:
    if rng.random() < 0.2:
        return rng.choice([folder, "-", *PATHS])
    path = folder / f"text-{rng.randrange(3)}{rng.choice(ENDINGS)}"
    content = _content(rng, lines)
    if path.suffix == ".gz" and rng.random() < 0.7:
        content = gzip.compress(content)[: rng.choice([10**9, 10**9, 15])]
    if path.suffix == ".jsonl" and rng.random() < 0.7:
        content = rng.choice([b'{"text": "a b"}\n', b'{"words": ["a", 1]}\n', b"[1]\n", b'{"text": null}\n', b'"a"\n'])
    path.write_bytes(content)
    return path


def _files(rng: random.Random, folder: Path) -> list:
    return [_file(rng, folder) for _ in range(rng.choice([1, 1, 1, 2]))]
