"""The model card: what the README.md of a saved ELMo says."""

import os
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

VECTORS = """```python
import torch
from transformers import AutoModel, AutoTokenizer

name = "{name}"
tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=True)
model = AutoModel.from_pretrained(name, trust_remote_code=True)

sentences = [["A", "first", "sentence", "."], ["Another", "one"]]
batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
with torch.no_grad():
    output = model(**batch, output_hidden_states=True)
print(output.last_hidden_state.shape)  # one vector per token, the boundaries <S> and </S> included
```
"""

PIPELINE = """```python
from transformers import pipeline

classify = pipeline("{task}", model="{name}", trust_remote_code=True)
print(classify({example}))
```
"""
TASKS = {
    "ElmoModel": "feature-extraction",
    "ElmoForTokenClassification": "token-classification",
    "ElmoForSequenceClassification": "text-classification",
}

CARD = """---
{metadata}
---

# {title}

An ELMo: a deep bidirectional LSTM language model over {inputs}, whose layers are mixed by learned weights into
vectors that depend on the sentence (Peters et al. 2018, *Deep contextualized word representations*).

## Use

{use}
With `pip install elmo-hf` and `import elmo_hf`, `trust_remote_code` is not needed.

## Sizes

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


def model_card(model: Any, name: str) -> str:
    """The text of the card of `model`, to be loaded as `name`."""
    config = model.config
    data = config.card_data or {}
    task = TASKS.get(type(model).__name__)
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
        title=os.path.basename(os.path.normpath(name)),
        use=_use(task, name, config),
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
        license=data.get("license", "not stated"),
        citation=CITATION,
    )


def _use(task: str | None, name: str, config: Any) -> str:
    if task not in ("token-classification", "text-classification"):
        return VECTORS.format(name=name)
    pair = task == "text-classification" and config.sentence_pairs
    example = '{"text": "A first sentence.", "text_pair": "Another one."}' if pair else '"A first sentence."'
    return PIPELINE.format(task=task, name=name, example=example)


def write_card(model: Any, folder: str | os.PathLike):
    """Writes README.md into `folder` unless there is one: what a person wrote stays."""
    path = os.path.join(folder, "README.md")
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(model_card(model, os.fspath(folder)))


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
