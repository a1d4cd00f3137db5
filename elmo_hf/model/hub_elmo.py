"""The table of what can be saved and shared: Auto classes, pipelines, heads, and what the card of each shows.

`auto_map`, the registrations, the pipelines of a saved model and its card are all derived from the rows below.
"""

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

import transformers

if TYPE_CHECKING:
    # The Hub receives the files that relative imports reach. Naming every file here makes each save carry all of
    # them, so that a base model can later be loaded as any other class.
    from .character_cnn_elmo import ElmoCharacterEncoder  # noqa: F401
    from .checks_elmo import check_tensors  # noqa: F401
    from .configuration_elmo import ElmoConfig  # noqa: F401
    from .coreference_elmo import ElmoForCoreference  # noqa: F401
    from .crf_elmo import LinearChainCrf  # noqa: F401
    from .dictionary_encoder_elmo import ElmoDictionaryEncoder  # noqa: F401
    from .dispatch_elmo import has_fast_way  # noqa: F401
    from .fast_cell_elmo import cell_  # noqa: F401
    from .fast_engine_elmo import engine_of  # noqa: F401
    from .fast_fork_elmo import settle  # noqa: F401
    from .fast_int8_elmo import Int8Product  # noqa: F401
    from .fast_lstm_elmo import run_layer  # noqa: F401
    from .fast_lstm_training_elmo import run_layers_trained  # noqa: F401
    from .fast_native_elmo import set_native  # noqa: F401
    from .fast_operators_elmo import onednn_can  # noqa: F401
    from .fast_packing_elmo import Packing  # noqa: F401
    from .fast_products_elmo import linear_kept  # noqa: F401
    from .fast_threads_elmo import side_by_side  # noqa: F401
    from .fast_ways_elmo import WAYS  # noqa: F401
    from .fast_word_cache_elmo import WordCache  # noqa: F401
    from .fast_words_elmo import distinct_words  # noqa: F401
    from .head_base_elmo import Read  # noqa: F401
    from .head_bcn_elmo import BiattentiveClassifier  # noqa: F401
    from .head_bidaf_elmo import BidafSpans  # noqa: F401
    from .head_coref_elmo import SpanRanker  # noqa: F401
    from .head_crf_elmo import BiLstmCrf  # noqa: F401
    from .head_esim_elmo import InferencePairs  # noqa: F401
    from .head_linear_elmo import LinearTokens  # noqa: F401
    from .head_settings_elmo import HeadSettings  # noqa: F401
    from .head_srl_elmo import PredicateLstm  # noqa: F401
    from .heads_elmo import ElmoForTokenClassification  # noqa: F401
    from .int8_elmo import quantize_weight  # noqa: F401
    from .language_modeling_elmo import ElmoForPreTraining  # noqa: F401
    from .loading_elmo import check_loaded  # noqa: F401
    from .lstm_elmo import ElmoBiLm  # noqa: F401
    from .model_card_elmo import model_card  # noqa: F401
    from .modeling_elmo import ElmoModel  # noqa: F401
    from .overriding_elmo import overrides  # noqa: F401
    from .pipeline_elmo import ElmoTokenClassificationPipeline  # noqa: F401
    from .pretrained_elmo import ElmoPreTrainedModel  # noqa: F401
    from .question_answering_elmo import ElmoForQuestionAnswering  # noqa: F401
    from .sampled_softmax_elmo import draw_words  # noqa: F401
    from .scalar_mix_elmo import ElmoScalarMix  # noqa: F401
    from .sentence_cache_elmo import SentenceCache  # noqa: F401
    from .sentence_transformers_elmo import write_sentence_transformers  # noqa: F401
    from .task_encoders_elmo import StackedBiLstm  # noqa: F401
    from .task_layers_elmo import BiAttention  # noqa: F401
    from .task_model_elmo import ElmoTaskModel  # noqa: F401
    from .tokenization_elmo import ElmoTokenizer  # noqa: F401

READING = """import torch
from transformers import AutoModel, AutoTokenizer

name = "{name}"
tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=True, revision="main")
model = AutoModel.from_pretrained(name, trust_remote_code=True, revision="main")

%s
with torch.no_grad():
    output = model(**batch, output_hidden_states=True)
print(output.last_hidden_state.shape)  # one vector per token, the boundaries <S> and </S> included
"""
SENTENCES = """sentences = [["A", "first", "sentence", "."], ["Another", "one"]]
batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")"""
SEQUENCES = """sequences = ["SEQWENCE", "PRTEIN"]
batch = tokenizer(sequences, padding=True, return_tensors="pt")"""
VECTORS, RESIDUE_VECTORS = READING % SENTENCES, READING % SEQUENCES
PIPELINE = """from transformers import pipeline

classify = pipeline("{task}", model="{name}", trust_remote_code=True)
print(classify(%s))
"""
SENTENCE = PIPELINE % '"A first sentence."'
PAIR = PIPELINE % '{{"text": "A first sentence.", "text_pair": "Another one."}}'
# What stands on the card in place of these, where a text is a sequence of residues.
OF_RESIDUES = {
    VECTORS: RESIDUE_VECTORS,
    SENTENCE: PIPELINE % '"SEQWENCE"',
    PAIR: PIPELINE % '{{"text": "SEQWENCE", "text_pair": "PRTEIN"}}',
}

PREDICATE = """import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer

name = "{name}"
tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=True, revision="main")
model = AutoModelForTokenClassification.from_pretrained(name, trust_remote_code=True, revision="main")

words, predicate = ["She", "sold", "the", "house", "."], 1
batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
batch["token_type_ids"] = torch.zeros_like(batch["attention_mask"])
batch["token_type_ids"][0, predicate + 1] = 1  # <S> comes first
with torch.no_grad():
    labels = model(**batch).logits.argmax(-1)[0, 1:-1]
print([model.config.id2label[label] for label in labels.tolist()])
"""

ANSWER = """from transformers import AutoModelForQuestionAnswering, AutoTokenizer

name = "{name}"
tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=True, revision="main")
model = AutoModelForQuestionAnswering.from_pretrained(name, trust_remote_code=True, revision="main")
print(model.answer(tokenizer, "Who came?", "Ann came home late, and Bob slept."))
"""
# No Auto class knows of coreference: the class is loaded by its name.
CLUSTERS = """from transformers import AutoTokenizer
from transformers.dynamic_module_utils import get_class_from_dynamic_module

name = "{name}"
tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=True, revision="main")
model_class = get_class_from_dynamic_module("coreference_elmo.ElmoForCoreference", name)
model = model_class.from_pretrained(name, trust_remote_code=True, revision="main")
print(model.clusters(tokenizer, [["Ann", "came", "home", "."], ["She", "slept", "."]]))
"""


class Saved(NamedTuple):
    """A class that can be saved.

    Args:
        name, module: the class and its file.
        auto_class: the Auto class that loads it; None where transformers has none, and it is loaded by its name.
        task: the task of the Hub, and of `pipeline` if there is a class for it.
        aliases: other names that `pipeline` has for the task.
        pipeline: the class in pipeline_elmo for the task, if transformers' own does not do.
        example: the code on its card; `{name}` and `{task}` are filled in.
    """

    name: str
    module: str
    auto_class: str | None
    task: str | None = None
    aliases: tuple[str, ...] = ()
    pipeline: str | None = None
    example: str = VECTORS


class Head(NamedTuple):
    """A network that a task class can have on top: `head="name"` of the class `owner`."""

    name: str
    owner: str
    module: str
    class_name: str
    example: str | None = None


SAVED = (
    Saved("ElmoModel", "modeling_elmo", "AutoModel", "feature-extraction"),
    Saved("ElmoForPreTraining", "language_modeling_elmo", "AutoModelForPreTraining"),
    Saved(
        "ElmoForTokenClassification",
        "heads_elmo",
        "AutoModelForTokenClassification",
        "token-classification",
        ("ner",),
        "ElmoTokenClassificationPipeline",
        SENTENCE,
    ),
    Saved(
        "ElmoForSequenceClassification",
        "heads_elmo",
        "AutoModelForSequenceClassification",
        "text-classification",
        ("sentiment-analysis",),
        "ElmoTextClassificationPipeline",
        SENTENCE,
    ),
    Saved(
        "ElmoForQuestionAnswering",
        "question_answering_elmo",
        "AutoModelForQuestionAnswering",
        "question-answering",
        example=ANSWER,
    ),
    Saved("ElmoForCoreference", "coreference_elmo", None, example=CLUSTERS),
)

# The first of a class is what it has if `head` does not say.
HEADS = (
    Head("linear", "ElmoForTokenClassification", "head_linear_elmo", "LinearTokens"),
    Head("bilstm-crf", "ElmoForTokenClassification", "head_crf_elmo", "BiLstmCrf"),
    Head("srl", "ElmoForTokenClassification", "head_srl_elmo", "PredicateLstm", PREDICATE),
    Head("linear", "ElmoForSequenceClassification", "head_linear_elmo", "LinearSentences"),
    Head("bcn", "ElmoForSequenceClassification", "head_bcn_elmo", "BiattentiveClassifier"),
    Head("linear", "ElmoForQuestionAnswering", "head_linear_elmo", "LinearSpans"),
    Head("bidaf", "ElmoForQuestionAnswering", "head_bidaf_elmo", "BidafSpans"),
    Head("spans", "ElmoForCoreference", "head_coref_elmo", "SpanRanker"),
    Head("esim", "ElmoForSequenceClassification", "head_esim_elmo", "InferencePairs"),
)

# What `trust_remote_code=True` loads for each Auto class. A save by itself would name only the class that was saved.
AUTO_MAP: dict[str, Any] = {
    "AutoConfig": "configuration_elmo.ElmoConfig",
    "AutoTokenizer": ["tokenization_elmo.ElmoTokenizer", None],
    **{row.auto_class: f"{row.module}.{row.name}" for row in SAVED if row.auto_class},
}


def saved_class(name: str) -> Saved | None:
    """The row of a class; None for a class that has none, as one that a user derived."""
    return next((row for row in SAVED if row.name == name), None)


def row_of(model_class: type) -> Saved | None:
    """The row of a class, or of the first of its bases that has one."""
    return next(filter(None, (saved_class(base.__name__) for base in model_class.__mro__)), None)


def heads_of(owner: str) -> dict[str, Head]:
    """The heads of a task class by their names, the usual one first."""
    return {head.name: head for head in HEADS if head.owner == owner}


def load_class(module: str, name: str) -> Any:
    """A class of one of the files beside this one, wherever they are: in the package or in a model's own copy."""
    return getattr(importlib.import_module(f".{module}", __package__), name)


def register_auto_classes():
    """Makes transformers' Auto classes know every class of the table."""
    config_class = load_class("configuration_elmo", "ElmoConfig")
    transformers.AutoConfig.register("elmo", config_class, exist_ok=True)
    tokenizer_class = load_class("tokenization_elmo", "ElmoTokenizer")
    transformers.AutoTokenizer.register(config_class, tokenizer_class=tokenizer_class, exist_ok=True)
    for row in SAVED:
        if row.auto_class is not None:
            auto_class = getattr(transformers, row.auto_class)
            auto_class.register(config_class, load_class(row.module, row.name), exist_ok=True)


def pipelines_of(row: Saved | None) -> dict[str, dict[str, Any]]:
    """What `config.custom_pipelines` says of a saved model. One task only: `pipeline(model=...)` then finds it."""
    if row is None or row.pipeline is None:
        return {}
    return {row.task: {"impl": f"pipeline_elmo.{row.pipeline}", "pt": [row.auto_class], "type": "text"}}


class Pipelines(dict):
    """Pipelines by task, found by another name of the task too: `"ner"` for `"token-classification"`."""

    def _task(self, name: Any) -> Any:
        return next((row.task for row in SAVED if name in row.aliases), name)

    def __contains__(self, name: Any) -> bool:
        return super().__contains__(name) or super().__contains__(self._task(name))

    def __getitem__(self, name: Any) -> Any:
        return super().__getitem__(name if super().__contains__(name) else self._task(name))


__all__ = ["AUTO_MAP", "HEADS", "SAVED", "Head", "Pipelines", "Saved", "heads_of", "load_class", "pipelines_of"]
