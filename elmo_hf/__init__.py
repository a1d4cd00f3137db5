"""ELMo for Hugging Face: deep contextualized word vectors from characters."""

from transformers import AutoConfig, AutoModel, AutoModelForPreTraining, AutoTokenizer

from .configuration_elmo import ElmoConfig
from .language_modeling_elmo import ElmoForPreTraining, ElmoForPreTrainingOutput
from .modeling_elmo import (
    ElmoModel,
    ElmoModelOutput,
    ElmoPreTrainedModel,
    resize_states,
    strip_boundaries,
)
from .scalar_mix_elmo import ElmoScalarMix
from .tokenization_elmo import ElmoTokenizer
from .version import __version__
from .word_rows_elmo import byte_rows, read_word_vocabulary

AutoConfig.register("elmo", ElmoConfig, exist_ok=True)
AutoTokenizer.register(ElmoConfig, tokenizer_class=ElmoTokenizer, exist_ok=True)
AutoModel.register(ElmoConfig, ElmoModel, exist_ok=True)
AutoModelForPreTraining.register(ElmoConfig, ElmoForPreTraining, exist_ok=True)

__all__ = [
    "ElmoConfig",
    "ElmoForPreTraining",
    "ElmoForPreTrainingOutput",
    "ElmoModel",
    "ElmoModelOutput",
    "ElmoPreTrainedModel",
    "ElmoScalarMix",
    "ElmoTokenizer",
    "__version__",
    "byte_rows",
    "read_word_vocabulary",
    "resize_states",
    "strip_boundaries",
]
