"""A small text, and the sizes of a model that learns it in a moment."""

import json

SIZES = {
    "character_cnn_filters": [[1, 4], [2, 6]],
    "projection_size": 8,
    "cell_size": 12,
    "num_highway_layers": 1,
    "max_characters_per_token": 12,
}
WORDS = "the cat sat on a mat and saw another dog there".split()


def lines(number):
    """Sentences of 2 to 11 words; the 331st is the first again."""
    return [" ".join(WORDS[k * 7 % 11 :][: 2 + k % 6] + WORDS[: k % 5]) for k in range(number)]


def write_text(folder, number=150, **settings):
    """Writes the inputs of `elmo-hf pretrain`: text.txt, and config.json with SIZES and settings."""
    (folder / "text.txt").write_text("\n".join(lines(number)))
    (folder / "config.json").write_text(json.dumps({**SIZES, **settings}))
