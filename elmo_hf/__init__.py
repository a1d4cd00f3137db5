"""ELMo for Hugging Face: deep contextualized word vectors from characters."""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)
from transformers.pipelines import PIPELINE_REGISTRY

from .language_model.perplexity import DirectionLoss, Perplexity, perplexity
from .language_model.scorer import ElmoScorer, Prediction, SentenceScore
from .model.configuration_elmo import ElmoConfig
from .model.heads_elmo import ElmoForSequenceClassification, ElmoForTokenClassification, pool_words
from .model.language_modeling_elmo import ElmoForPreTraining, ElmoForPreTrainingOutput
from .model.modeling_elmo import (
    ElmoModel,
    ElmoModelOutput,
    resize_states,
    strip_boundaries,
)
from .model.pipeline_elmo import ElmoTextClassificationPipeline, ElmoTokenClassificationPipeline
from .model.pretrained_elmo import ElmoPreTrainedModel
from .model.scalar_mix_elmo import ElmoScalarMix
from .model.tokenization_elmo import ElmoTokenizer
from .model.word_rows_elmo import byte_rows, read_word_vocabulary
from .text.conll import read_conll, read_conllu
from .text.labels import align_labels, encode_words, label_names
from .text.lines import read_lines
from .text.metrics import entity_metrics
from .version import __version__

AutoConfig.register("elmo", ElmoConfig, exist_ok=True)
AutoTokenizer.register(ElmoConfig, tokenizer_class=ElmoTokenizer, exist_ok=True)
AutoModel.register(ElmoConfig, ElmoModel, exist_ok=True)
AutoModelForPreTraining.register(ElmoConfig, ElmoForPreTraining, exist_ok=True)
AutoModelForTokenClassification.register(ElmoConfig, ElmoForTokenClassification, exist_ok=True)
AutoModelForSequenceClassification.register(ElmoConfig, ElmoForSequenceClassification, exist_ok=True)

# `register_pipeline` would save our files with every model of the task; these classes leave other models alone.
PIPELINE_REGISTRY.supported_tasks["token-classification"]["impl"] = ElmoTokenClassificationPipeline
PIPELINE_REGISTRY.supported_tasks["text-classification"]["impl"] = ElmoTextClassificationPipeline

__all__ = [
    "DirectionLoss",
    "ElmoConfig",
    "ElmoForSequenceClassification",
    "ElmoForTokenClassification",
    "ElmoForPreTraining",
    "ElmoForPreTrainingOutput",
    "ElmoModel",
    "ElmoModelOutput",
    "ElmoPreTrainedModel",
    "ElmoScalarMix",
    "ElmoTextClassificationPipeline",
    "ElmoTokenClassificationPipeline",
    "ElmoScorer",
    "ElmoTokenizer",
    "Perplexity",
    "Prediction",
    "SentenceScore",
    "__version__",
    "align_labels",
    "byte_rows",
    "encode_words",
    "entity_metrics",
    "label_names",
    "pool_words",
    "read_conll",
    "read_conllu",
    "perplexity",
    "read_lines",
    "read_word_vocabulary",
    "resize_states",
    "strip_boundaries",
]
