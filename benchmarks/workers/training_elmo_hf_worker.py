"""elmo_hf's own trainer: in float32, in mixed precision with bfloat16, or without kernels."""

import tempfile
from pathlib import Path

import torch
import transformers
from transformers import TrainerCallback, TrainingArguments
from turns import Turns

import elmo_hf
from elmo_hf.conversion import config_from_options
from elmo_hf.pretraining import Corpus, ElmoPretrainer, TrainingWindows
from elmo_hf.pretraining.memory import keep_freed_memory
from elmo_hf.pretraining.model_initialization import new_model


class OneByOne(TrainerCallback):
    """Takes a step when one is asked for."""

    def __init__(self, turns: Turns):
        self.turns = turns

    def on_step_begin(self, *_, **__):
        self.turns.before_step()


def trainer(settings: dict, folder: Path, callback: TrainerCallback) -> ElmoPretrainer:
    """As `elmo-hf pretrain` sets it up; the text stays in its order, which is that of the other program too."""
    options = settings["options"]
    words = Path(settings["vocabulary"]).read_text(encoding="utf-8").split()
    tokenizer = elmo_hf.ElmoTokenizer("whitespace", "bytes", word_vocabulary=words)
    model = new_model(config_from_options(options, bidirectional=True), words)
    model.config.num_sampled = options["n_negative_samples_batch"]
    if settings["variant"] == "plain torch":
        elmo_hf.kernels.KERNELS.clear()
    lines = Path(settings["text"]).read_text(encoding="utf-8").splitlines()
    corpus = Corpus.write(lines, folder / "corpus", tokenizer)
    windows = TrainingWindows(
        corpus, tokenizer, model.config, options["batch_size"], options["unroll_steps"], shuffle=False
    )
    arguments = TrainingArguments(
        output_dir=str(folder / "run"),
        optim="adagrad",
        learning_rate=options["learning_rate"],
        lr_scheduler_type="constant",
        max_grad_norm=options["all_clip_norm_val"],
        num_train_epochs=1000,  # the text is read over and over
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        use_cpu=True,
        bf16=settings["variant"] == "bfloat16",
    )
    return ElmoPretrainer(model, arguments, windows, tokenizer, callbacks=[callback])


def main():
    keep_freed_memory()
    turns = Turns()
    turns.version = (
        f"elmo_hf {elmo_hf.__version__}, torch {torch.__version__}, transformers {transformers.__version__}"
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer(turns.settings, Path(folder), OneByOne(turns)).train()


if __name__ == "__main__":
    main()
