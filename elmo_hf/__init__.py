"""ELMo for Hugging Face: deep contextualized word vectors from characters."""

import sys
from pathlib import PurePath
from typing import TYPE_CHECKING

from .late import late_names
from .version import __version__

if TYPE_CHECKING:
    from .bundled import bundled_model
    from .embedding import ElmoEmbedder, EmbeddingStore, SentenceSource, embed, embed_corpus, open_store
    from .language_model.perplexity import DirectionLoss, Perplexity, perplexity
    from .language_model.scorer import ElmoScorer, Prediction, SentenceScore
    from .model.configuration_elmo import ElmoConfig
    from .model.coreference_elmo import ElmoForCoreference
    from .model.crf_elmo import LinearChainCrf
    from .model.head_linear_elmo import pool_words
    from .model.heads_elmo import ElmoForSequenceClassification, ElmoForTokenClassification
    from .model.language_modeling_elmo import ElmoForPreTraining, ElmoForPreTrainingOutput
    from .model.modeling_elmo import ElmoModel, ElmoModelOutput, resize_states, strip_boundaries
    from .model.pipeline_elmo import ElmoTextClassificationPipeline, ElmoTokenClassificationPipeline
    from .model.pretrained_elmo import ElmoPreTrainedModel
    from .model.question_answering_elmo import Answer, ElmoForQuestionAnswering
    from .model.scalar_mix_elmo import ElmoScalarMix
    from .model.sentence_cache_elmo import SentenceCache
    from .model.task_encoders_elmo import InterleavedHighwayLstm, StackedBiLstm
    from .model.tokenization_elmo import ElmoTokenizer, byte_rows, read_word_vocabulary
    from .text.conll import read_conll, read_conllu
    from .text.labels import align_labels, encode_words, label_names
    from .text.lines import read_lines
    from .text.metrics import entity_metrics
    from .text.word_vectors import read_word_vectors

# Where each name is: most programs use a few of them.
PLACES = {
    "Answer": "model.question_answering_elmo",
    "DirectionLoss": "language_model.perplexity",
    "ElmoConfig": "model.configuration_elmo",
    "ElmoEmbedder": "embedding",
    "ElmoForCoreference": "model.coreference_elmo",
    "ElmoForPreTraining": "model.language_modeling_elmo",
    "ElmoForPreTrainingOutput": "model.language_modeling_elmo",
    "ElmoForQuestionAnswering": "model.question_answering_elmo",
    "ElmoForSequenceClassification": "model.heads_elmo",
    "ElmoForTokenClassification": "model.heads_elmo",
    "ElmoModel": "model.modeling_elmo",
    "ElmoModelOutput": "model.modeling_elmo",
    "ElmoPreTrainedModel": "model.pretrained_elmo",
    "ElmoScalarMix": "model.scalar_mix_elmo",
    "ElmoScorer": "language_model.scorer",
    "ElmoTextClassificationPipeline": "model.pipeline_elmo",
    "ElmoTokenClassificationPipeline": "model.pipeline_elmo",
    "ElmoTokenizer": "model.tokenization_elmo",
    "EmbeddingStore": "embedding",
    "InterleavedHighwayLstm": "model.task_encoders_elmo",
    "LinearChainCrf": "model.crf_elmo",
    "Perplexity": "language_model.perplexity",
    "Prediction": "language_model.scorer",
    "SentenceCache": "model.sentence_cache_elmo",
    "SentenceScore": "language_model.scorer",
    "SentenceSource": "embedding",
    "StackedBiLstm": "model.task_encoders_elmo",
    "align_labels": "text.labels",
    "bundled_model": "bundled",
    "byte_rows": "model.tokenization_elmo",
    "embed": "embedding",
    "embed_corpus": "embedding",
    "encode_words": "text.labels",
    "entity_metrics": "text.metrics",
    "label_names": "text.labels",
    "open_store": "embedding",
    "perplexity": "language_model.perplexity",
    "pool_words": "model.head_linear_elmo",
    "read_conll": "text.conll",
    "read_conllu": "text.conll",
    "read_lines": "text.lines",
    "read_word_vectors": "text.word_vectors",
    "read_word_vocabulary": "model.tokenization_elmo",
    "resize_states": "model.modeling_elmo",
    "strip_boundaries": "model.modeling_elmo",
}
ROOMS = ("analysis", "bundled", "conversion", "embedding", "language_model", "native", "page", "pretraining", "text")

__getattr__, __dir__ = late_names(__name__, PLACES, ROOMS)


def _is_command_line() -> bool:
    """Whether this process is `elmo-hf ...`, which registers only if it has more to do than to explain itself."""
    program = [*sys.orig_argv[1:3], "", ""][:2]
    return PurePath(program[0]).stem == "elmo-hf" or program == ["-m", "elmo_hf.cli"]


# transformers knows ELMo as soon as this package is imported.
if not _is_command_line():
    from . import registration  # noqa: F401

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
