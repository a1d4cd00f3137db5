"""ELMo for Hugging Face: deep contextualized word vectors from characters."""

from .bundled import bundled_model
from .embedding import ElmoEmbedder, EmbeddingStore, SentenceSource, embed, embed_corpus, open_store
from .language_model.perplexity import DirectionLoss, Perplexity, perplexity
from .language_model.scorer import ElmoScorer, Prediction, SentenceScore
from .model.configuration_elmo import ElmoConfig
from .model.coreference_elmo import ElmoForCoreference
from .model.crf_elmo import LinearChainCrf
from .model.fast_native_elmo import set_native
from .model.head_linear_elmo import pool_words
from .model.heads_elmo import ElmoForSequenceClassification, ElmoForTokenClassification
from .model.hub_elmo import register_auto_classes
from .model.language_modeling_elmo import ElmoForPreTraining, ElmoForPreTrainingOutput
from .model.modeling_elmo import (
    ElmoModel,
    ElmoModelOutput,
    resize_states,
    strip_boundaries,
)
from .model.pipeline_elmo import ElmoTextClassificationPipeline, ElmoTokenClassificationPipeline, register_pipelines
from .model.pretrained_elmo import ElmoPreTrainedModel
from .model.question_answering_elmo import Answer, ElmoForQuestionAnswering
from .model.scalar_mix_elmo import ElmoScalarMix
from .model.sentence_cache_elmo import SentenceCache
from .model.task_encoders_elmo import InterleavedHighwayLstm, StackedBiLstm
from .model.tokenization_elmo import ElmoTokenizer
from .model.word_rows_elmo import byte_rows, read_word_vocabulary
from .native import find as find_native
from .text.conll import read_conll, read_conllu
from .text.labels import align_labels, encode_words, label_names
from .text.lines import read_lines
from .text.metrics import entity_metrics
from .text.word_vectors import read_word_vectors
from .version import __version__

register_auto_classes()
register_pipelines()
set_native(find_native)

__all__ = [
    "Answer",
    "DirectionLoss",
    "ElmoConfig",
    "ElmoEmbedder",
    "ElmoForCoreference",
    "ElmoForQuestionAnswering",
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
    "EmbeddingStore",
    "InterleavedHighwayLstm",
    "LinearChainCrf",
    "Perplexity",
    "Prediction",
    "SentenceCache",
    "SentenceScore",
    "SentenceSource",
    "StackedBiLstm",
    "__version__",
    "align_labels",
    "bundled_model",
    "byte_rows",
    "embed",
    "embed_corpus",
    "encode_words",
    "entity_metrics",
    "label_names",
    "open_store",
    "pool_words",
    "read_conll",
    "read_conllu",
    "perplexity",
    "read_lines",
    "read_word_vectors",
    "read_word_vocabulary",
    "resize_states",
    "strip_boundaries",
]
