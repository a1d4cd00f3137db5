"""The model card: what the README.md of a saved ELMo says."""

import functools
import os
import sys
from typing import Any

from huggingface_hub import HfApi, ModelCard, ModelCardData
from huggingface_hub.errors import EntryNotFoundError

from .hub_elmo import OF_RESIDUES, PAIR, SAVED, SENTENCE, Saved, heads_of, row_of

CITATION = """@inproceedings{peters-etal-2018-deep,
    title = "Deep Contextualized Word Representations",
    author = "Peters, Matthew E. and Neumann, Mark and Iyyer, Mohit and Gardner, Matt and Clark, Christopher and
      Lee, Kenton and Zettlemoyer, Luke",
    booktitle = "Proceedings of NAACL-HLT 2018, Volume 1 (Long Papers)",
    year = "2018",
    pages = "2227--2237",
    doi = "10.18653/v1/N18-1202",
}"""

# The heading under which a Trainer tells how it trained.
TRAINING_SECTION = "## Training procedure"

CARD = """---
{metadata}
---

# {title}

An ELMo: a deep bidirectional LSTM language model over {inputs}, whose layers are mixed by learned weights into
vectors that depend on the sentence (Peters et al. 2018, *Deep contextualized word representations*).

## Use

```python
{use}```

Where the package elmo_hf is installed, from its repository, and imported, `trust_remote_code` is not needed. Without
it, `revision="main"` (or a commit) spares the notes on files of code that were downloaded.

{training}## Sizes

| | |
|---|---|
| parameters | {parameters:,} |
| vector size | {hidden_size} |
| layers, token vectors included | {layers} |
| LSTM cells x projection, directions | {cell_size} x {projection_size}, {directions} |
| {encoder_name} | {encoder} |

## Origin

{origin}

Licence of the weights: {license}.

## Citation

```bibtex
{citation}
```
"""


# The rates that the README tells too.
TRAINING = """## Fine-tuning

Measured with a linear head on WNUT17: with a frozen biLM, mix and head take a rate of 1e-2 for five to ten epochs; at
the Trainer's own 5e-5 the first scores are near zero. `mix_dropout=0.1` does better than the paper's 0.5 where vectors
have a few hundred numbers.

"""


def model_card(model: Any, name: str) -> str:
    """The text of the card of `model`, to be loaded as `name`."""
    config = model.config
    data = config.card_data or {}
    row = row_of(type(model)) or SAVED[0]
    metadata = ModelCardData(
        library_name="transformers",
        pipeline_tag=row.task,
        tags=["elmo"],
        license=data.get("license"),
        language=data.get("language"),
    )
    if config.word_input:
        encoder_name, encoder = "words", f"{config.vocab_size:,}"
    else:
        filters = ", ".join(f"{number} of width {width}" for width, number in config.character_cnn_filters)
        encoder_name = "character filters, highway layers"
        encoder = f"{filters}; {config.num_highway_layers}"
    return CARD.format(
        metadata=metadata.to_yaml(),
        title=os.path.basename(os.path.normpath(name)),
        use=_use(row, name, model),
        training=TRAINING if heads_of(row.name) else "",
        inputs="words" if config.word_input else "characters",
        parameters=sum(p.numel() for p in model.parameters()),
        hidden_size=config.hidden_size,
        layers=config.num_hidden_layers + 1,
        cell_size=config.cell_size,
        projection_size=config.projection_size,
        directions=config.num_directions,
        encoder_name=encoder_name,
        encoder=encoder,
        origin=data.get("origin", "Not recorded."),
        license=" ".join(str(data.get("license", "not stated")).split()),
        citation=CITATION,
    )


def _use(row: Saved, name: str, model: Any) -> str:
    head = heads_of(row.name).get((model.config.head or {}).get("type")) if heads_of(row.name) else None
    example = (head and head.example) or row.example
    if getattr(model, "reads_pairs", False) and example == SENTENCE:
        example = PAIR
    if (model.config.card_data or {}).get("splitting") == "residues":
        example = OF_RESIDUES.get(example, example)
    # A name of a folder may hold what ends a string of Python.
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return example.format(task=row.task, name=quoted)


def write_card(model: Any, folder: str | os.PathLike):
    """Writes README.md into `folder` unless there is one: what a person wrote stays."""
    path = os.path.join(folder, "README.md")
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(model_card(model, os.fspath(folder)))


def keep_card_in_trainer():
    """Lets a Trainer that has an ELMo add to its card in place of writing another one over it.

    `Trainer.create_model_card` has no hook for what it writes; it is wrapped, where a Trainer is in use, and does for
    other models what it did.
    """
    module = sys.modules.get("transformers.trainer")
    trainer_class = getattr(module, "Trainer", None)
    if trainer_class is None or hasattr(trainer_class.create_model_card, "adds_to_elmo_cards"):
        return
    written_by_trainer = trainer_class.create_model_card

    @functools.wraps(written_by_trainer)
    def create_model_card(self: Any, *args: Any, **kwargs: Any):
        written_by_trainer(self, *args, **kwargs)
        config = getattr(self.model, "config", None)
        if getattr(config, "model_type", None) == "elmo" and self.is_world_process_zero():
            path = os.path.join(self.args.output_dir, "README.md")
            name = self.hub_model_id or self.args.hub_model_id or self.args.output_dir
            add_training_facts(model_card(self.accelerator.unwrap_model(self.model), name), path)

    create_model_card.adds_to_elmo_cards = True
    trainer_class.create_model_card = create_model_card


def add_training_facts(card_text: str, path: str | os.PathLike):
    """Puts the card of a model in place of what a Trainer wrote to `path`, and the Trainer's facts behind it."""
    written, card = ModelCard.load(path), ModelCard(card_text)
    for key, value in written.data.to_dict().items():
        if key == "tags":
            card.data.tags = list(dict.fromkeys([*(card.data.tags or []), *value]))
        elif key not in card.data.to_dict():
            card.data[key] = value
    lines = written.text.splitlines()
    begin = lines.index(TRAINING_SECTION) if TRAINING_SECTION in lines else len(lines)
    results = _results(lines[:begin])
    facts = "\n".join(["## Training", "", *results, *lines[begin + 1 :]]).strip()
    before, heading, after = card.text.partition("## Citation")
    card.text = f"{before}{facts}\n\n{heading}{after}"
    card.save(path)


def _results(lines: list[str]) -> list[str]:
    """What a Trainer says above its own section: the scores on the evaluation set."""
    found = [line for line in lines if line.startswith("- ")]
    return ["Results on the evaluation set:", "", *found, ""] if found else []


def put_card_on_hub(model: Any, repo_id: str, token: str | bool | None = None, private: bool | None = None):
    """Gives a repository its card before the first upload, which would otherwise bring an empty one."""
    api = HfApi(token=token)
    repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
    try:
        if "has been automatically generated" not in ModelCard.load(repo_id, token=token).text:
            return
    except EntryNotFoundError:
        pass
    api.upload_file(
        path_or_fileobj=model_card(model, repo_id).encode(),
        path_in_repo="README.md",
        repo_id=repo_id,
        commit_message="Add the model card",
    )
