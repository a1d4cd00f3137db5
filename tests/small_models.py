"""Small random models with a fixed seed."""

import torch

from elmo_hf import ElmoConfig

SIZES = {
    "character_cnn_filters": [[1, 8], [2, 8], [3, 8]],
    "character_cnn_activation": "tanh",
    "num_highway_layers": 1,
    "projection_size": 8,
    "cell_size": 16,
}
ENTITIES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def small(model_class, **settings):
    """A model in evaluation mode; `labels` names the labels."""
    names = settings.pop("labels", None)
    if names is not None:
        settings |= {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}
    torch.manual_seed(0)
    return model_class(ElmoConfig(**{**SIZES, **settings})).eval()
