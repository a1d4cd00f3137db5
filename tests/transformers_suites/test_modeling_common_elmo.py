"""transformers' own tests of models, for every class of this package that is registered with it."""

import unittest

import pytest
import torch
from transformers_suites.suites import not_applicable, suite

from elmo_hf import (
    ElmoConfig,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
)

modeling = suite("test_modeling_common")
configuration = suite("test_configuration_common")

# Name of a test, or of the tests whose names begin with it -> why it says nothing about an LSTM over characters.
NOT_APPLICABLE = {
    "test_load_with_mismatched_shapes": "loads a base model with another vocab_size, which no weight of it depends on",
    "test_model_get_set_embeddings": "the input embeddings are the character encoder, a network rather than a table",
}
NOT_OF_PAIRS = {
    "test_retain_grad_hidden_states_attentions": "each text of a pair is a row of its own; the layers that are "
    "returned are the sum of both rows",
}
LAYERS = "a language model returns losses and states; the layers are those of its ElmoModel"
NOT_OF_LANGUAGE_MODELS = {
    "test_hidden_states_output": LAYERS,
    "test_model_outputs_equivalence": LAYERS,
    "test_retain_grad_hidden_states_attentions": LAYERS,
}

# The suites call what transformers itself deprecates.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.filterwarnings("default::pytest.PytestWarning")]


# The suites know what a class is called with by its name in transformers' own tables, where ours are not.
OURS = {
    "MODEL_MAPPING_NAMES": "ElmoModel",
    "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES": "ElmoForTokenClassification",
    "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES": "ElmoForSequenceClassification",
    "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES": "ElmoForQuestionAnswering",
}
for table, name in OURS.items():
    setattr(modeling, table, {**getattr(modeling, table), "elmo": name})


class ElmoModelTester:
    """A tiny configuration, and inputs for it: sentences, or pairs of them."""

    batch_size, seq_length, is_training = 3, 7, True
    hidden_size, num_hidden_layers, num_labels = 16, 2, 3

    def __init__(self, parent, pairs=False):
        self.parent, self.pairs = parent, pairs

    def get_config(self):
        return ElmoConfig(
            character_cnn_filters=[[1, 4], [2, 8]],
            character_embedding_dim=8,
            num_highway_layers=1,
            max_characters_per_token=8,
            projection_size=8,
            cell_size=16,
            vocab_size=20,
            num_labels=self.num_labels,
            freeze_bilm=False,
            mix_dropout=0.0,
            dropout=0.0,
        )

    def prepare_config_and_inputs_for_common(self):
        config = self.get_config()
        shape = (self.batch_size, self.seq_length, config.max_characters_per_token)
        # Letters only: no word is a boundary by chance.
        input_ids = torch.randint(98, 123, shape)
        if self.pairs:
            begin, end = (torch.tensor([259, boundary, 260, *[261] * (shape[2] - 3)]) for boundary in (257, 258))
            input_ids[:, [0, 3]], input_ids[:, [2, -1]] = begin, end
        inputs = {"input_ids": input_ids, "attention_mask": torch.ones(shape[:2], dtype=torch.long)}
        if self.pairs:
            inputs["token_type_ids"] = (torch.arange(shape[1]) > 2).long().expand(shape[:2]).contiguous()
        return config, {name: values.to(modeling.torch_device) for name, values in inputs.items()}


class Suite(modeling.ModelTesterMixin):
    has_attentions = False
    test_resize_embeddings = False

    def setUp(self):
        self.model_tester = ElmoModelTester(self)


@not_applicable(NOT_APPLICABLE, Suite)
class ElmoModelTest(Suite, unittest.TestCase):
    all_model_classes = (ElmoModel, ElmoForTokenClassification, ElmoForSequenceClassification)

    def test_config(self):
        properties = ["hidden_size", "num_hidden_layers"]
        tester = configuration.ConfigTester(self, ElmoConfig, common_properties=properties, projection_size=16)
        tester.run_common_tests()


@not_applicable({**NOT_APPLICABLE, **NOT_OF_PAIRS}, Suite)
class ElmoForQuestionAnsweringTest(Suite, unittest.TestCase):
    all_model_classes = (ElmoForQuestionAnswering,)

    def setUp(self):
        self.model_tester = ElmoModelTester(self, pairs=True)

    def _prepare_for_class(self, inputs_dict, model_class, return_labels=False):
        inputs = super()._prepare_for_class(inputs_dict, model_class, return_labels=return_labels)
        # An answer is made of words of the second text.
        answers = {name: value + 4 for name, value in inputs.items() if name.endswith("_positions")}
        return {**inputs, **answers}


@not_applicable({**NOT_APPLICABLE, **NOT_OF_LANGUAGE_MODELS}, Suite)
class ElmoForPreTrainingTest(Suite, unittest.TestCase):
    all_model_classes = (ElmoForPreTraining,)

    def _prepare_for_class(self, inputs_dict, model_class, return_labels=False):
        # Without labels there is nothing that it returns.
        inputs = super()._prepare_for_class(inputs_dict, model_class, return_labels=return_labels)
        return {**inputs, "labels": inputs["attention_mask"].cumsum(1)}
