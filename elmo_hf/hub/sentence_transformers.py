"""Two files beside a saved ElmoModel, from which sentence-transformers computes sentence vectors.

They name its own Transformer module and the method that it calls, `ElmoModel.sentence_vectors`.
"""

import json
import os
from pathlib import Path

METHOD = "sentence_vectors"
FILES = {
    "modules.json": [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}
    ],
    "sentence_bert_config.json": {
        "transformer_task": "feature-extraction",
        "modality_config": {"text": {"method": METHOD, "method_output_name": None}},
        "module_output_name": "sentence_embedding",
    },
}


def write_sentence_transformers(folder: str | os.PathLike):
    """Writes the files, unless sentence-transformers itself is saving and has written its own."""
    if not (Path(folder) / "modules.json").exists():
        for name, content in FILES.items():
            (Path(folder) / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


__all__ = ["write_sentence_transformers"]
