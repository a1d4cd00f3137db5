"""ELMo for Hugging Face: deep contextualized word vectors from characters."""

from typing import TYPE_CHECKING

from .hub.registration import register_with_transformers
from .late import late_names
from .version import __version__

if TYPE_CHECKING:
    from .bundled import bundled_model
    from .embedding import ElmoEmbedder, EmbeddingStore, SentenceSource, embed, embed_corpus, open_store
    from .hub.trainer import ElmoTrainer
    from .language_model.perplexity import DirectionLoss, Perplexity, perplexity
    from .language_model.scorer import ElmoScorer, Prediction, SentenceScore
    from .model.configuration_elmo import ElmoConfig
    from .model.modeling_elmo_lm import ElmoForPreTraining, ElmoForPreTrainingOutput
    from .model.modeling_elmo import ElmoModel, ElmoModelOutput, pool_words
    from .model.modeling_elmo_heads import (
        ElmoForQuestionAnswering,
        ElmoForSequenceClassification,
        ElmoForTokenClassification,
        ElmoTextClassificationPipeline,
        ElmoTokenClassificationPipeline,
    )
    from .model.modeling_elmo import ElmoPreTrainedModel
    from .model.modeling_elmo import ElmoScalarMix
    from .kernels.sentence_cache import SentenceCache
    from .model.tokenization_elmo import ElmoTokenizer
    from .model.tokenization_elmo import byte_rows, read_word_vocabulary
    from .tasks.coreference.model import ElmoForCoreference
    from .tasks.encoders import InterleavedHighwayLstm, StackedBiLstm
    from .tasks.questions.answers import Answer
    from .tasks.tagging.conll import read_conll, read_conllu
    from .tasks.tagging.crf import LinearChainCrf
    from .tasks.tagging.labels import align_labels, encode_words, label_names
    from .tasks.tagging.metrics import entity_metrics
    from .tensors import resize_states, strip_boundaries
    from .text.lines import read_lines
    from .text.word_vectors import read_word_vectors

# Where each name is: most programs use a few of them.
PLACES = {
    "Answer": "tasks.questions.answers",
    "DirectionLoss": "language_model.perplexity",
    "ElmoConfig": "model.configuration_elmo",
    "ElmoEmbedder": "embedding",
    "ElmoForCoreference": "tasks.coreference.model",
    "ElmoForPreTraining": "model.modeling_elmo_lm",
    "ElmoForPreTrainingOutput": "model.modeling_elmo_lm",
    "ElmoForQuestionAnswering": "model.modeling_elmo_heads",
    "ElmoForSequenceClassification": "model.modeling_elmo_heads",
    "ElmoForTokenClassification": "model.modeling_elmo_heads",
    "ElmoModel": "model.modeling_elmo",
    "ElmoModelOutput": "model.modeling_elmo",
    "ElmoPreTrainedModel": "model.modeling_elmo",
    "ElmoScalarMix": "model.modeling_elmo",
    "ElmoScorer": "language_model.scorer",
    "ElmoTextClassificationPipeline": "model.modeling_elmo_heads",
    "ElmoTokenClassificationPipeline": "model.modeling_elmo_heads",
    "ElmoTokenizer": "model.tokenization_elmo",
    "ElmoTrainer": "hub.trainer",
    "EmbeddingStore": "embedding",
    "InterleavedHighwayLstm": "tasks.encoders",
    "LinearChainCrf": "tasks.tagging.crf",
    "Perplexity": "language_model.perplexity",
    "Prediction": "language_model.scorer",
    "SentenceCache": "kernels.sentence_cache",
    "SentenceScore": "language_model.scorer",
    "SentenceSource": "embedding",
    "StackedBiLstm": "tasks.encoders",
    "align_labels": "tasks.tagging.labels",
    "bundled_model": "bundled",
    "byte_rows": "model.tokenization_elmo",
    "embed": "embedding",
    "embed_corpus": "embedding",
    "encode_words": "tasks.tagging.labels",
    "entity_metrics": "tasks.tagging.metrics",
    "label_names": "tasks.tagging.labels",
    "open_store": "embedding",
    "perplexity": "language_model.perplexity",
    "pool_words": "model.modeling_elmo",
    "read_conll": "tasks.tagging.conll",
    "read_conllu": "tasks.tagging.conll",
    "read_lines": "text.lines",
    "read_word_vectors": "text.word_vectors",
    "read_word_vocabulary": "model.tokenization_elmo",
    "resize_states": "tensors",
    "strip_boundaries": "tensors",
}
ROOMS = ("analysis", "bundled", "conversion", "embedding", "hub", "language_model", "kernels", "page", "pretraining")
ROOMS += ("tasks", "text")

__getattr__, __dir__ = late_names(__name__, PLACES, ROOMS)


# transformers knows ELMo from here on; it is not loaded by this.
register_with_transformers()

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
    "ElmoTrainer",
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
