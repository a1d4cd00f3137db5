"""ElmoTrainer: a Trainer that keeps the model card of an ELMo."""

import os
from typing import Any

from transformers import Trainer

from elmo_hf.hub.model_card import add_training_facts, model_card


class ElmoTrainer(Trainer):
    """transformers' `Trainer`, except that the model card which it writes is the model's own, with a section on the
    training: hyperparameters, scores and versions.

    A plain `Trainer` trains an ELMo as well, and replaces its card.

    Example:

    ```python
    >>> import tempfile
    >>> from transformers import TrainingArguments
    >>> from elmo_hf import ElmoConfig, ElmoForTokenClassification, ElmoTrainer
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> arguments = TrainingArguments(tempfile.mkdtemp(), report_to="none", use_cpu=True)
    >>> ElmoTrainer(ElmoForTokenClassification(config), arguments).create_model_card()

    ```
    """

    def create_model_card(self, *args: Any, **kwargs: Any):
        """As in transformers, added to the card of the model."""
        super().create_model_card(*args, **kwargs)
        if self.is_world_process_zero():
            folder = self.args.output_dir or "."
            path = os.path.join(folder, "README.md")
            name = self.hub_model_id or self.args.hub_model_id or folder
            add_training_facts(model_card(self.accelerator.unwrap_model(self.model), name), path)


__all__ = ["ElmoTrainer"]
