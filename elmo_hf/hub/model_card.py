"""The model card: README.md of a saved ELMo."""

import json
import os
import re
from typing import Any

from huggingface_hub import HfApi, ModelCard, ModelCardData
from huggingface_hub.errors import EntryNotFoundError

CITATION = """@inproceedings{peters-etal-2018-deep,
    title = "Deep Contextualized Word Representations",
    author = "Peters, Matthew E. and Neumann, Mark and Iyyer, Mohit and Gardner, Matt and Clark, Christopher and
      Lee, Kenton and Zettlemoyer, Luke",
    booktitle = "Proceedings of NAACL-HLT 2018, Volume 1 (Long Papers)",
    year = "2018",
    pages = "2227--2237",
    doi = "10.18653/v1/N18-1202",
}"""

READING = """import torch
from transformers import AutoModel, AutoTokenizer

name = "{name}"
tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=True, revision="main")
model = AutoModel.from_pretrained(name, trust_remote_code=True, revision="main")

%s
with torch.no_grad():
    output = model(**batch, output_hidden_states=True)
print(output.last_hidden_state.shape)  # one vector per token, the boundaries <S> and </S> included
"""
SENTENCES = """sentences = [["A", "first", "sentence", "."], ["Another", "one"]]
batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")"""
SEQUENCES = """sequences = ["SEQWENCE", "PRTEIN"]
batch = tokenizer(sequences, padding=True, return_tensors="pt")"""
VECTORS, RESIDUE_VECTORS = READING % SENTENCES, READING % SEQUENCES
PIPELINE = """from transformers import pipeline

classify = pipeline("{task}", model="{name}", trust_remote_code=True)
print(classify(%s))
"""
SENTENCE = PIPELINE % '"A first sentence."'
PAIR = PIPELINE % '{{"text": "A first sentence.", "text_pair": "Another one."}}'
# Examples for models whose texts are sequences of residues.
OF_RESIDUES = {
    VECTORS: RESIDUE_VECTORS,
    SENTENCE: PIPELINE % '"SEQWENCE"',
    PAIR: PIPELINE % '{{"text": "SEQWENCE", "text_pair": "PRTEIN"}}',
}
ANSWER = """from transformers import AutoModelForQuestionAnswering, AutoTokenizer

name = "{name}"
tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=True, revision="main")
model = AutoModelForQuestionAnswering.from_pretrained(name, trust_remote_code=True, revision="main")
print(model.answer(tokenizer, "Who came?", "Ann came home late, and Bob slept."))
"""
# The task of the Hub and the example of a class and of those derived from it; other classes have those of ElmoModel.
CARDS = {
    "ElmoForTokenClassification": ("token-classification", SENTENCE),
    "ElmoForSequenceClassification": ("text-classification", SENTENCE),
    "ElmoForQuestionAnswering": ("question-answering", ANSWER),
    "ElmoForPreTraining": (None, VECTORS),
    "ElmoForCoreference": (None, VECTORS),
    "ElmoModel": ("feature-extraction", VECTORS),
}

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

{note}

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


NOTE = """Where the package elmo_hf is installed, from its repository, and imported, `trust_remote_code` is not needed.
Without it, `revision="main"` (or a commit) avoids the warnings about downloaded code."""
PACKAGE_NOTE = """The head `{head}` is part of the package elmo_hf: `pip install elmo-hf`. With it imported,
`trust_remote_code` is not needed."""

# The README gives these learning rates too.
TRAINING = """## Fine-tuning

Measured with a linear head on WNUT17: with a frozen biLM, mix and head take a rate of 1e-2 for five to ten epochs; at
the Trainer's own 5e-5 the first scores are near zero. `mix_dropout=0.1` does better than the paper's 0.5 where vectors
have a few hundred numbers.

"""


def model_card(model: Any, name: str) -> str:
    """The text of the card of `model`, to be loaded as `name`.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel
    >>> from elmo_hf.hub.model_card import model_card
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16))
    >>> "# my-elmo" in model_card(model, "me/my-elmo")
    True

    ```
    """
    config = model.config
    data = config.card_data or {}
    names = [base.__name__ for base in type(model).__mro__]
    task, example = next((CARDS[name] for name in names if name in CARDS), CARDS["ElmoModel"])
    head = config.head["type"] if hasattr(model, "classifier") else None
    metadata = ModelCardData(
        library_name="transformers",
        pipeline_tag=task,
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
        title=escaped(os.path.basename(os.path.normpath(name))),
        use=_example(model, example).format(task=task, name=_string_literal(name)),
        note=NOTE if head in (None, "linear") else PACKAGE_NOTE.format(head=head),
        training=TRAINING if head is not None else "",
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
        license=escaped(str(data.get("license", "not stated"))),
        citation=CITATION,
    )


def _example(model: Any, example: str) -> str:
    """The code on the card: that of the head or of the class where they have one, `card_example`."""
    head = getattr(model, "classifier", None)
    example = getattr(head, "card_example", None) or getattr(model, "card_example", None) or example
    if example == SENTENCE and getattr(model, "reads_pairs", False):
        example = PAIR
    residues = (model.config.card_data or {}).get("splitting") == "residues"
    return OF_RESIDUES.get(example, example) if residues else example


def _string_literal(name: str) -> str:
    """A name between the double quotes of Python's string literals, on one line."""
    return "".join(c if c.isprintable() and c not in '"\\' else json.dumps(c)[1:-1] for c in name)


def escaped(name: str) -> str:
    """The name of a file, folder or corpus for a card: one line, without the characters of Markdown and HTML.

    Example:

    ```python
    >>> from elmo_hf.hub.model_card import escaped
    >>> escaped("new [text](x)`\\n<b>.txt")
    'new _text_(x)_ _b_.txt'

    ```
    """
    return re.sub(r"[^\w .,:@+~()=#%&!/-]", "_", " ".join(name.split()))


def write_model_card(model: Any, folder: str | os.PathLike):
    """Writes README.md into `folder` unless there is one."""
    path = os.path.join(folder, "README.md")
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(model_card(model, os.fspath(folder)))


def add_training_facts(card_text: str, path: str | os.PathLike):
    """Replaces the card that a Trainer wrote to `path` by the card of the model, with the Trainer's facts added."""
    path = os.fspath(path)
    written, card = ModelCard.load(path), ModelCard(card_text)
    for key, value in written.data.to_dict().items():
        if key == "tags":
            card.data["tags"] = list(dict.fromkeys([*(card.data.get("tags") or []), *value]))
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
    """The scores on the evaluation set, which a Trainer writes above its own section."""
    scores = [line for line in lines if line.startswith("- ")]
    return ["Results on the evaluation set:", "", *scores, ""] if scores else []


def create_repo_with_card(model: Any, repo_id: str, *, token: Any = None, private: bool | None = None):
    """Creates a repository with its card before the first upload, which would otherwise bring an empty one."""
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


__all__ = ["add_training_facts", "create_repo_with_card", "escaped", "model_card", "write_model_card"]
