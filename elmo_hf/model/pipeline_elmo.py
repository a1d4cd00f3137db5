"""Pipelines: what transformers' own need to know of a model whose tokens are words."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from transformers import Pipeline, TextClassificationPipeline, TokenClassificationPipeline
from transformers.pipelines import PIPELINE_REGISTRY, _resolve_impl
from transformers.pipelines.token_classification import AggregationStrategy

from .hub_elmo import SAVED
from .overriding_elmo import overrides


class PipelineOfTask:
    """What transformers' registry holds for a task: an ELMo gets its pipeline, and any other model what was there.

    A class registered in place of transformers' own would be built for every model of the task, and its files saved
    with each. This stands before what was registered, and passes on all that is asked of it.
    """

    def __init__(self, ours: type[Pipeline], theirs: type[Pipeline] | str):
        self.ours, self.theirs = ours, theirs

    def __call__(self, model: Any = None, **kwargs: Any) -> Pipeline:
        is_elmo = model is not None and model.config.model_type == "elmo"
        return (self.ours if is_elmo else self._registered())(model=model, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in ("ours", "theirs") or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._registered(), name)

    def _registered(self) -> type[Pipeline]:
        # Without an import of every pipeline, transformers names them by strings.
        return _resolve_impl(self.theirs)


def register_pipelines():
    """Makes `pipeline` build the classes here for an ELMo; twice is as good as once."""
    for row in SAVED:
        task = PIPELINE_REGISTRY.supported_tasks.get(row.task)
        if row.pipeline is not None and task is not None and type(task["impl"]).__name__ != PipelineOfTask.__name__:
            task["impl"] = PipelineOfTask(globals()[row.pipeline], task["impl"])


@overrides("check_model_type")
class ElmoPipeline(Pipeline):
    """What the pipelines here share."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        # `pipeline` leaves classes in the config that it read the pipeline's name from, which no JSON can hold.
        self.model.config.custom_pipelines = {}

    def check_model_type(self, supported_models: Any):
        """Nothing: transformers' list of supported classes cannot know of an ELMo."""


class ElmoTextClassificationPipeline(ElmoPipeline, TextClassificationPipeline):
    """`pipeline("text-classification")` for an ELMo; a pair is `{"text": ..., "text_pair": ...}`.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoForSequenceClassification, ElmoTokenizer
    >>> from transformers import pipeline
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16, num_labels=2)
    >>> model = ElmoForSequenceClassification(config)
    >>> found = pipeline("text-classification", model=model, tokenizer=ElmoTokenizer())("It rains", top_k=None)
    >>> sorted(one["label"] for one in found), round(sum(one["score"] for one in found), 4)
    (['LABEL_0', 'LABEL_1'], 1.0)

    ```
    """


@overrides("preprocess", "postprocess", "gather_pre_entities")
class ElmoTokenClassificationPipeline(ElmoPipeline, TokenClassificationPipeline):
    """`pipeline("token-classification")` for an ELMo, whose tokens are whole words.

    As in transformers, with two differences. All strategies agree on single words, because a word is never in
    pieces: `"first"`, `"average"` and `"max"` group as `"simple"` does. And of a long text, cut into overlapping
    pieces by `stride`, each word has the label of the piece that shows most of its surroundings; entities are
    grouped after that, so that none is cut in two.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoForTokenClassification, ElmoTokenizer
    >>> from transformers import pipeline
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16, id2label={0: "LOC"})
    >>> tagger = pipeline("token-classification", model=ElmoForTokenClassification(config), tokenizer=ElmoTokenizer())
    >>> [(word["word"], word["start"], word["end"]) for word in tagger("Hello, Rome!")]
    [('Hello', 0, 5), (',', 5, 6), ('Rome', 7, 11), ('!', 11, 12)]

    ```
    """

    def preprocess(self, sentence: Any, offset_mapping: Any = None, **params: Any) -> Iterator[dict[str, Any]]:
        # transformers writes into this dictionary, which lives as long as the pipeline.
        params["tokenizer_params"] = dict(params.get("tokenizer_params", {}))
        return super().preprocess(sentence, offset_mapping, **params)

    def postprocess(
        self,
        all_outputs: list[dict[str, Any]],
        aggregation_strategy: AggregationStrategy = AggregationStrategy.NONE,
        ignore_labels: list[str] | None = None,
    ) -> list[dict[str, Any]]:
        ignore_labels = ["O"] if ignore_labels is None else ignore_labels
        words: dict[Any, tuple[int, dict[str, Any]]] = {}  # in the order of the text
        for outputs in all_outputs:
            piece = self._words_of(outputs, all_outputs[0]["sentence"])
            for number, (place, word) in enumerate(piece):
                surroundings = min(number, len(piece) - 1 - number)
                if place not in words or words[place][0] < surroundings:
                    words[place] = (surroundings, word)
        entities = self.aggregate([word for _, word in words.values()], aggregation_strategy)
        return [one for one in entities if one.get("entity_group", one.get("entity")) not in ignore_labels]

    def _words_of(self, outputs: dict[str, Any], sentence: str) -> list[tuple[Any, dict[str, Any]]]:
        """The words of one piece, each with what names its place in the whole text."""
        logits = outputs["logits"][0].float().numpy()  # (T, num_labels)
        exponentials = np.exp(logits - logits.max(-1, keepdims=True))
        offsets, word_ids = outputs["offset_mapping"][0], outputs["word_ids"]
        words = self.gather_pre_entities(
            sentence,
            outputs["input_ids"][0],
            exponentials / exponentials.sum(-1, keepdims=True),
            offsets,
            outputs["special_tokens_mask"][0].numpy(),
            AggregationStrategy.NONE,
            word_ids=word_ids,
            word_to_chars_map=outputs["word_to_chars_map"],
        )
        return [(word["start"] if word_ids is None else word_ids[word["index"]], word) for word in words]

    def gather_pre_entities(
        self,
        sentence: str,
        input_ids: Any,
        scores: np.ndarray,
        offset_mapping: Any,
        special_tokens_mask: np.ndarray,
        aggregation_strategy: AggregationStrategy,
        word_ids: list[int | None] | None = None,
        word_to_chars_map: list[tuple[int, int]] | None = None,
    ) -> list[dict[str, Any]]:
        """As in transformers, but a position is a word, and what it says is read from the text."""
        words = []
        for index in np.flatnonzero(special_tokens_mask == 0).tolist():
            start, end = (int(place) for place in offset_mapping[index])
            if word_ids is not None and word_to_chars_map is not None:
                # Offsets of words that were split before are inside of each word.
                begin = word_to_chars_map[word_ids[index]][0]
                start, end = start + begin, end + begin
            word = {"word": sentence[start:end], "scores": scores[index], "start": start, "end": end}
            words.append({**word, "index": index, "is_subword": False})
        return words


__all__ = ["ElmoTextClassificationPipeline", "ElmoTokenClassificationPipeline", "register_pipelines"]
