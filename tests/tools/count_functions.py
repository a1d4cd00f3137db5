"""Counts the functions and files of the package that a call of a model goes through.

    python tests/tools/count_functions.py
    ELMO_HF_KERNELS=0 python tests/tools/count_functions.py --list

A reader has to follow these functions to understand how a vector is computed, or what a training step does.
"""

import argparse
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "elmo_hf"
SIZES = {"character_cnn_filters": [[1, 8], [2, 8]], "projection_size": 8, "cell_size": 16, "num_highway_layers": 1}
TEXTS = ["The first sentence is the longest one", "Second", "A third , then ."]
VOCABULARY = 40


def functions_of(call: Callable) -> dict[str, int]:
    """The functions of the package that `call` goes through, by file and name, and how often.

    Comprehensions and lambdas belong to the function that they stand in; what reads a module, and classes that are
    made meanwhile, count as nothing.
    """
    counts: dict[str, int] = {}

    def profile(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            name = code.co_qualname.split(".<locals>.<")[0]
            if not name.startswith("<") and "__qualname__" not in frame.f_locals:
                path = Path(code.co_filename).relative_to(PACKAGE)
                counts[f"{path}:{name}"] = counts.get(f"{path}:{name}", 0) + 1

    # Also of threads that begin during the call: autograd has its own.
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return counts


def calls() -> dict[str, Callable]:
    """What is counted, by name; everything has been called once, so that lazy preparations are done."""
    import torch

    from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel, ElmoTokenizer

    torch.manual_seed(0)
    tokenizer = ElmoTokenizer(word_vocabulary=["<S>", "</S>", "<UNK>", *(f"w{number}" for number in range(37))])
    model = ElmoModel(ElmoConfig(**SIZES)).eval()

    @torch.no_grad()
    def embed():
        return model(**tokenizer(TEXTS, padding=True, return_tensors="pt"))

    def stepper(model, batch):
        model.train()
        optimizer = torch.optim.Adam([parameter for parameter in model.parameters() if parameter.requires_grad])

        def step():
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    labels = batch["attention_mask"].cumsum(1) % 3
    tagger = ElmoForTokenClassification(ElmoConfig(**SIZES, num_labels=3, freeze_bilm=False))
    config = ElmoConfig(**SIZES, vocab_size=VOCABULARY, num_sampled=8)
    words = tokenizer(TEXTS, padding=True, return_tensors="pt", return_lm_labels=True)
    compute = {
        "embed": embed,
        "train a tagger": stepper(tagger, {**batch, "labels": labels}),
        "pretrain": stepper(ElmoForPreTraining(config), dict(words)),
    }
    for call in compute.values():
        call()
    return compute


def count() -> dict[str, dict[str, int]]:
    """Name of the call -> the functions that it goes through."""
    return {name: functions_of(call) for name, call in calls().items()}


def count_apart(kernels: bool) -> dict[str, dict[str, int]]:
    """As `count`, in a process of its own with kernels or without."""
    sys.path.insert(0, str(ROOT / "tests"))
    from fork_server import run_forked

    env = {name: value for name, value in os.environ.items() if name != "ELMO_HF_KERNELS"}
    env |= {} if kernels else {"ELMO_HF_KERNELS": "0"}
    done = run_forked([__file__, "--json"], env, ROOT)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def files(functions: dict[str, int]) -> set[str]:
    return {name.partition(":")[0] for name in functions}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="every function, with its number of calls")
    parser.add_argument("--json", action="store_true", help="as JSON, of this process only")
    options = parser.parse_args()
    if options.json:
        print(json.dumps(count()))
        return
    for kernels in (True, False):
        for name, functions in count_apart(kernels).items():
            how = "with kernels" if kernels else "without kernels"
            print(f"{name}, {how}: {len(functions)} functions in {len(files(functions))} files")
            if options.list:
                for function, number in functions.items():
                    print(f"    {number:4} {function}")


if __name__ == "__main__":
    main()
