"""What sentence-transformers needs beside a saved ElmoModel to make sentence vectors of it: two small files.

They name its own Transformer module and, as what that calls, `ElmoModel.sentence_vectors`: no code of this package's
has to be one of its modules.
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
    """Writes the files, unless there are others of sentence-transformers: then it is the one who saves."""
    if not (Path(folder) / "modules.json").exists():
        for name, content in FILES.items():
            (Path(folder) / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
