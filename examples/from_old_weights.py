"""The whole way of an old checkpoint: convert, verify, push to a Hub, load back. The Hub runs on this machine."""

import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from local_hub import LocalHub  # noqa: E402


def say(text: str):
    print(f"\n== {text}", flush=True)


def main(folder: Path):
    # The client reads the Hub's address when it is imported, which is why imports wait until here.
    import h5py
    import numpy as np
    import torch
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    from elmo_hf.conversion import convert, verify

    logging.disable_progress_bar()
    golden = ROOT / "tests" / "golden" / "plain"
    say(f"Converting {golden.relative_to(ROOT)}/options.json and weights.hdf5, a small checkpoint of random weights")
    model = convert(golden / "options.json", golden / "weights.hdf5", output_dir=folder / "small-elmo", language="en")
    print(f"{type(model).__name__} of {model.num_parameters():,} parameters, vectors of {model.config.hidden_size}")

    say("Verifying it against the vectors that bilm-tf computed from the same files, carried state included")
    sentences = json.loads((golden / "sentences.json").read_text(encoding="utf-8"))
    with np.load(golden / "expected.npz") as expected, h5py.File(folder / "expected.hdf5", "w") as file:
        for number in range(len(sentences)):
            file[str(number)] = expected[f"stateful/{number}"]
    print(verify(folder / "small-elmo", folder / "expected.hdf5", sentences, batch_size=3))

    say("Pushing it to a Hub on this machine")
    repo = "tester/small-elmo"
    model.push_to_hub(repo)
    AutoTokenizer.from_pretrained(folder / "small-elmo").push_to_hub(repo)
    print(f"{os.environ['HF_ENDPOINT']}/{repo}")

    say("Loading it back with the Auto classes")
    tokenizer, loaded = AutoTokenizer.from_pretrained(repo), AutoModel.from_pretrained(repo)
    batch = tokenizer(["He plays in a play.", "It's raining."], padding=True, return_tensors="pt")
    with torch.inference_mode():
        output = loaded(**batch, output_hidden_states=True)
        same = model(**batch)
    print(tokenizer.decode(batch["input_ids"]))
    print("vectors", tuple(output.last_hidden_state.shape), "of", len(output.hidden_states), "layers")
    difference = (output.last_hidden_state - same.last_hidden_state).abs().max().item()
    first, second = (output.last_hidden_state[0, place] for place in (2, 5))
    print(f"difference from the model before it was pushed: {difference:g}")
    print(f"cosine of 'plays' and 'play': {torch.cosine_similarity(first, second, dim=0):.3f}")


if __name__ == "__main__":
    with LocalHub() as hub, tempfile.TemporaryDirectory() as temporary:
        os.environ.update(hub.env, HF_HUB_DISABLE_PROGRESS_BARS="1")
        main(Path(temporary))
