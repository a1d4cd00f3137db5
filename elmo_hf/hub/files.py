"""Files that are written beside a saved model: its card, and those that sentence-transformers reads."""

import os
import stat
from pathlib import Path
from typing import Any

from transformers.utils import CONFIG_NAME

from .model_card import write_model_card
from .sentence_transformers import write_sentence_transformers


def write_files_beside(model: Any, folder: str | os.PathLike):
    """Writes the card of a saved model, and beside an encoder or language model the files of sentence-transformers."""
    _share_permissions(folder)
    write_model_card(model, folder)
    if model.base_model is model or model.get_output_embeddings() is not None:
        write_sentence_transformers(folder)


def _share_permissions(folder: str | os.PathLike):
    """Gives the weights the permissions of the config, which follow the umask; safetensors admits only the owner."""
    config = os.path.join(folder, CONFIG_NAME)
    if os.path.exists(config):
        permissions = stat.S_IMODE(os.stat(config).st_mode)
        for path in Path(folder).glob("*.safetensors"):
            if stat.S_IMODE(path.stat().st_mode) != permissions:
                path.chmod(permissions)


__all__ = ["write_files_beside"]
