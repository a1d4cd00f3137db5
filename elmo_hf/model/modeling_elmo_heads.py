"""ELMo with a task head: labels for tokens, for sentences and pairs, answers to questions.

Linear heads are defined here. The networks of the paper are in the package, `elmo_hf.tasks`, and are looked up there
if `config.head` names one. The pipelines for these models are at the end of this file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import Pipeline, TextClassificationPipeline, TokenClassificationPipeline
from transformers.modeling_outputs import QuestionAnsweringModelOutput, SequenceClassifierOutput, TokenClassifierOutput
from transformers.pipelines.token_classification import AggregationStrategy
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import ElmoConfig, call_package, check, choices, package_attribute
from .modeling_elmo import (
    ElmoModel,
    ElmoPreTrainedModel,
    ElmoScalarMix,
    boundary_marks,
    can_inspect,
    check_inputs,
    check_labels,
    pool_words,
    token_mask,
    word_mask,
)


@strict
@dataclass(kw_only=True)
class HeadSettings:
    """Settings that every head has; methods `validate_...` are checks. A head's own `Settings` derive from this class.

    Args:
        elmo_at: where a mix of the biLM's layers is concatenated: `"input"`, `[x; ELMo]`, `"output"`, `[h; ELMo]`,
            both or none. Each mix has its own weights.
        word_vectors: rows and columns of a table of word vectors, concatenated to the input; None for no table.
        tune_word_vectors: train the table.
        output_mix_dropout, output_mix_l2: of the mix at the output; None for the config's `mix_dropout` and `mix_l2`.
    """

    places: ClassVar[tuple[str, ...]] = ("input", "output")

    elmo_at: list = field(default_factory=lambda: ["input"])
    word_vectors: list | None = None
    tune_word_vectors: bool = False
    output_mix_dropout: float | int | None = None
    output_mix_l2: float | int | None = None

    def validate_inputs(self):
        at, table = self.elmo_at, self.word_vectors
        valid = set(at) <= set(self.places) and len(set(at)) == len(at)
        check(valid, "elmo_at", at, f"a list with none or some of {', '.join(map(repr, self.places))}")
        valid = table is None or (len(table) == 2 and all(isinstance(n, int) and n >= 1 for n in table))
        check(valid, "word_vectors", table, "None, or [number of words, size of a vector]")
        check(table is not None or "input" in at, "elmo_at", at, "'input' in the list, or word_vectors as input")
        dropout, l2 = self.output_mix_dropout, self.output_mix_l2
        check(dropout is None or 0 <= dropout < 1, "output_mix_dropout", dropout, "None, or 0 to below 1")
        check(l2 is None or l2 >= 0, "output_mix_l2", l2, "None, or a number of at least 0")


def read_head(head: str | dict | None, model_class: "type[ElmoTaskModel]") -> tuple[str, type, HeadSettings]:
    """Resolves `config.head` for a task class: the type name, the class and the complete settings."""
    values = {"type": head} if isinstance(head, str) else dict(head or {})
    name = values.pop("type", model_class.default_head)
    head_class = model_class.linear_head
    if head_class is None or name != "linear":
        find_head = package_attribute("tasks", "find_head", f"The head {name!r} needs")
        head_class, values = find_head(name, values, model_class.task_class, has_linear=head_class is not None)
    names = [setting.name for setting in fields(head_class.Settings)]
    for key in values:
        check(key in names, f"head of type {name!r}", key, choices(key, names))
    try:
        return name, head_class, head_class.Settings(**values)
    except StrictDataclassError as error:
        raise ValueError(f"The head {name!r}: {' '.join(str(error).split())}") from error


class HeadInput(NamedTuple):
    """One sentence of each row, as a head reads it.

    Args:
        x: (B, T, input_size), a vector for each position, after dropout.
        words: (B, T), True at the words of this sentence, False at padding, `<S>` and `</S>`.
        output: (B, T, output_size), the mix for the output; None unless the settings ask for one.
        marks: (B, T), `token_type_ids` where they mark words and do not separate a pair; or None.
    """

    x: Tensor
    words: Tensor
    output: Tensor | None = None
    marks: Tensor | None = None


class ElmoHead(nn.Module):
    """Base class of the networks on top of a biLM, built as `Head(config, settings, input_size, output_size)`.

    A head of tokens computes `logits(sentence)`, (B, T, num_labels); a head of sentences `logits(*sentences)`,
    (B, num_labels), one `HeadInput` for each sentence of a pair; a head of questions `spans(question, passage)`.
    """

    Settings: Any = HeadSettings
    reads_pairs = False

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Losses of tokens, to be summed; labels (B, T) are -100 where there is none."""
        return nll(logits, labels)

    def decode(self, logits: Tensor, words: Tensor) -> Tensor:
        """Logits (B, T, num_labels) in evaluation mode: the argmax of a position is its label."""
        return logits


def nll(logits: Tensor, labels: Tensor) -> Tensor:
    """Negative log likelihoods of labels (...) under logits (..., num_labels), without those of -100."""
    labels = check_labels(labels, logits.shape[-1])
    labeled = labels != -100
    return F.cross_entropy(logits[labeled].float(), labels[labeled], reduction="none")


class LinearTokens(ElmoHead, nn.Linear):
    """A linear layer on the vector of every token."""

    class Settings(HeadSettings):
        """No settings of its own."""

        places = ("input",)

    def __init__(self, config: ElmoConfig, settings: Any, input_size: int, output_size: int):
        nn.Linear.__init__(self, input_size, config.num_labels)

    def logits(self, sentence: HeadInput) -> Tensor:
        return self(sentence.x)


class LinearSentences(ElmoHead, nn.Linear):
    """A linear layer on the pooled words of a sentence, or on `[u; v; |u - v|; u * v]` of two."""

    @strict
    @dataclass(kw_only=True)
    class Settings(LinearTokens.Settings):
        """
        Args:
            pooling: `"mean"`, `"max"` or `"first_last"` of a sentence's words, see `pool_words`.
            sentence_pairs: compare two sentences.
        """

        pooling: Literal["mean", "max", "first_last"] = "mean"
        sentence_pairs: bool = False

        def validate_pooling(self):
            valid = self.pooling != "first_last" or self.word_vectors is None
            check(valid, "pooling", self.pooling, "'mean' or 'max' with word vectors, which have no directions")

    def __init__(self, config: ElmoConfig, settings: Any, input_size: int, output_size: int):
        nn.Linear.__init__(self, input_size * (4 if settings.sentence_pairs else 1), config.num_labels)
        self.pooling, self.num_directions = settings.pooling, config.num_directions
        self.reads_pairs = settings.sentence_pairs

    def logits(self, *sentences: HeadInput) -> Tensor:
        u, *v = (pool_words(each.x, each.words, self.pooling, self.num_directions) for each in sentences)
        return self(torch.cat([u, v[0], (u - v[0]).abs(), u * v[0]], -1) if v else u)


class LinearSpans(ElmoHead):
    """`w . [p_t; q; p_t * q]` for the begin and the end of an answer, with the mean `q` of the question's words."""

    @strict
    @dataclass(kw_only=True)
    class Settings(LinearTokens.Settings):
        """
        Args:
            no_answer: score no answer too: `w . [p; q; p * q]` with the mean `p` of the passage's words.
        """

        no_answer: bool = False

    reads_pairs = True

    def __init__(self, config: ElmoConfig, settings: Any, input_size: int, output_size: int):
        super().__init__()
        self.linear = nn.Linear(3 * input_size, 2)
        self.no_answer = nn.Linear(3 * input_size, 1) if settings.no_answer else None

    def spans(self, question: HeadInput, passage: HeadInput) -> tuple[Tensor, Tensor, Tensor | None]:
        """Scores (B, T) of beginning and ending at each position, and (B,) of no answer, or None."""
        q, p = pool_words(question.x, question.words), passage.x
        q_t = q[:, None].expand_as(p)
        start, end = self.linear(torch.cat([p, q_t, p * q_t], -1)).unbind(-1)
        if self.no_answer is None:
            return start, end, None
        mean = pool_words(p, passage.words)
        return start, end, self.no_answer(torch.cat([mean, q, mean * q], -1)).squeeze(-1)


class ElmoTaskModel(ElmoPreTrainedModel):
    """Base class of task models: a biLM, frozen by default, the head that `config.head` names, its input and loss."""

    freezes_by_default = True
    accepts_loss_kwargs = True  # Trainer passes `num_items_in_batch` to forward
    # The class whose heads this one has, its linear head, and the head if `config.head` names none.
    task_class: ClassVar[str] = ""
    linear_head: ClassVar[type | None] = None
    default_head: ClassVar[str] = "linear"
    # Whether `token_type_ids` or a second `<S>` separate a row into two sentences, each read from a zero state.
    separates_pairs = False

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        name, head_class, settings = read_head(config.head, type(self))
        config.head, self.head_settings = {"type": name, **asdict(settings)}, settings
        self.elmo = ElmoModel(config)
        self.dropout = nn.Dropout(config.mix_dropout)
        input_size, output_size = (config.hidden_size * (place in settings.elmo_at) for place in ("input", "output"))
        self.word_vectors = None
        if settings.word_vectors:
            word_vectors = package_attribute("tasks.word_vectors", "WordVectors", "Word vectors need")
            self.word_vectors = word_vectors(*settings.word_vectors)
            input_size += settings.word_vectors[1]
        if "output" in settings.elmo_at:
            dropout, l2 = settings.output_mix_dropout, settings.output_mix_l2
            self.output_mix = ElmoScalarMix(
                config.num_hidden_layers + 1, config.mix, config.mix_layer_norm, config.mix_l2 if l2 is None else l2
            )
            self.output_dropout = nn.Dropout(config.mix_dropout if dropout is None else dropout)
        self.classifier = head_class(config, settings, input_size, output_size)
        self.reads_pairs = self.classifier.reads_pairs
        self.post_init()

    def set_word_vectors(self, vectors: Any):
        """Fills the table of word vectors from an array: a row for each of the tokenizer's `vector_words`."""
        check(self.word_vectors, "vectors", type(vectors).__name__, "a model whose head has `word_vectors`")
        self.word_vectors.fill(vectors)

    def _apply_freezing(self):
        super()._apply_freezing()
        if self.word_vectors is not None:
            self.word_vectors.table.requires_grad_(self.head_settings.tune_word_vectors)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        word_vector_ids: Tensor | None = None,
        **keywords: Any,
    ) -> Any:
        """
        Args:
            input_ids, attention_mask, inputs_embeds, output_hidden_states, keywords: as for ElmoModel.
            token_type_ids: (B, T), 1 in the second sentence of a pair; default: from the second `<S>` on. For the
                head `"srl"`, 1 at the predicate.
            labels: for tokens (B, T), -100 where there is none. For sentences, as `config.problem_type` says: classes
                (B,), or 0 and 1 (B, num_labels), or numbers; None is inferred as in transformers.
            num_items_in_batch: number of labels in all batches of a step with accumulated gradients.
            word_vector_ids: (B, T), rows of the table of word vectors, if the head has one.
        """
        self.check_keywords(keywords, labels=labels)
        sentences, hidden_states = self.head_inputs(
            input_ids, attention_mask, inputs_embeds, token_type_ids, word_vector_ids, output_hidden_states, **keywords
        )
        logits, loss = self.logits_and_loss(sentences, labels, num_items_in_batch)
        return self.output_class(loss=loss, logits=logits, hidden_states=hidden_states)

    def head_inputs(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        inputs_embeds: Tensor | None,
        token_type_ids: Tensor | None,
        word_vector_ids: Tensor | None,
        output_hidden_states: bool | None,
        **keywords: Any,
    ) -> tuple[list[HeadInput], tuple[Tensor, ...] | None]:
        """Checks the inputs; returns a `HeadInput` for each sentence, and the biLM's layers if requested."""
        per_token = {"token_type_ids": token_type_ids, "word_vector_ids": word_vector_ids}
        check_inputs(self.config, input_ids, inputs_embeds, attention_mask=attention_mask, **per_token)
        if word_vector_ids is None and self.word_vectors is not None:
            raise ValueError("Missing `word_vector_ids`. A tokenizer with `vector_words` returns them.")
        if word_vector_ids is not None and self.word_vectors is None:
            raise ValueError("Unexpected `word_vector_ids`: this model's head has no `word_vectors`.")
        mask = token_mask(input_ids, attention_mask, inputs_embeds)  # (B, T)
        masks = self._sentence_masks(mask, input_ids, token_type_ids) if self.separates_pairs else [mask]
        marks = None if self.separates_pairs else token_type_ids
        # Each sentence of a pair is a row of its own, in which the other one is masked.
        rows, count = torch.cat(masks), len(masks)
        tensors = (input_ids, inputs_embeds, word_vector_ids)
        input_ids, inputs_embeds, word_vector_ids = (None if x is None else torch.cat([x] * count) for x in tensors)
        words = word_mask(self.config, rows, input_ids)
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        parts, mix, layers, at = [], None, None, self.head_settings.elmo_at
        if self.word_vectors is not None:
            parts.append(self.word_vectors(word_vector_ids * words))
        if at or output_hidden_states:
            with_layers = output_hidden_states or "output" in at
            output = self.elmo(input_ids, rows, inputs_embeds, output_hidden_states=with_layers, **keywords)
            if "input" in at:
                parts.append(self.dropout(output.last_hidden_state))
            if "output" in at:
                mix = self.output_dropout(self.output_mix(output.hidden_states, rows, words))
            if output_hidden_states:
                # Of the two rows of a pair one is zero at every position.
                layers = tuple(sum(layer.chunk(count)) if count > 1 else layer for layer in output.hidden_states)
        mixes = [None] * count if mix is None else mix.chunk(count)
        sentences = zip(torch.cat(parts, -1).chunk(count), words.chunk(count), mixes, strict=True)
        return [HeadInput(*sentence, marks) for sentence in sentences], layers

    def _sentence_masks(self, mask: Tensor, input_ids: Tensor | None, token_type_ids: Tensor | None) -> list[Tensor]:
        """The mask (B, T) of each sentence: one, or two of a pair."""
        pairs = self.reads_pairs
        if token_type_ids is not None:
            second = mask & token_type_ids.bool()
        elif input_ids is None:
            if pairs:
                raise ValueError("Missing `token_type_ids`: a pair of `inputs_embeds` needs them, 0 and 1.")
            return [mask]
        else:
            begin, end = self.config.boundary_ids
            marks = torch.where(mask, boundary_marks(self.config, input_ids), 0)
            second = mask & ((marks == begin).cumsum(1) > 1)
            if not pairs:
                # `<S>` may be a word of a sentence; after `</S>` it begins another one.
                second &= F.pad((marks[:, :-1] == end) & (marks[:, 1:] == begin), (1, 0)).cummax(1).values
        if can_inspect(mask):
            wrong = (second.any(1) != pairs).nonzero().flatten().tolist()
            if wrong:
                content, expected = ("one sentence", "two") if pairs else ("a pair of sentences", "one")
                raise ValueError(f"Row {wrong[0]} holds {content}, but this model's head reads {expected}.")
        return [mask & ~second, second] if pairs else [mask]

    def task_loss(self, losses: Tensor, num_items_in_batch: Tensor | int | None, count: int | None = None) -> Tensor:
        """The mean of `losses` over `count` labels (default: number of losses) plus the penalty of the mixes.

        With accumulated gradients, of `num_items_in_batch` labels, the losses add up to that of one large batch.
        """
        count = losses.numel() if count is None else count
        items = max(count, 1) if num_items_in_batch is None else num_items_in_batch
        if isinstance(items, Tensor):
            items = items.to(losses.device)
        mixes = {"input": "elmo.scalar_mix", "output": "output_mix"}
        penalty = sum(self.get_submodule(mixes[place]).penalty() for place in self.head_settings.elmo_at)
        return (losses.sum() + count * penalty) / items


def _check_shape(name: str, x: Tensor, shape: Sequence[int]):
    check(x.shape == tuple(shape), f"{name}.shape", tuple(x.shape), f"{tuple(shape)}")


def _pipeline(task: str, pipeline: str, model: str) -> dict[str, dict[str, Any]]:
    """A pipeline of this file in `custom_pipelines` of a saved config."""
    return {task: {"impl": f"modeling_elmo_heads.{pipeline}", "pt": [f"AutoModelFor{model}"], "type": "text"}}


class ElmoForTokenClassification(ElmoTaskModel):
    """ELMo with a label for every token, for example a part of speech or an entity."""

    task_class, linear_head = "ElmoForTokenClassification", LinearTokens
    output_class = TokenClassifierOutput
    saved_pipelines = _pipeline("token-classification", "ElmoTokenClassificationPipeline", "TokenClassification")

    def logits_and_loss(self, sentences: list[HeadInput], labels: Any, items: Any) -> tuple[Tensor, Tensor | None]:
        """The logits of the head, and with labels the loss."""
        logits, loss = self.classifier.logits(sentences[0]), None  # (B, T, num_labels)
        if labels is not None:
            _check_shape("labels", labels, logits.shape[:2])
            labels = check_labels(labels, self.num_labels)
            losses = self.classifier.losses(logits, labels)
            loss = self.task_loss(losses, items, count=int((labels != -100).sum()))
        if not self.training:
            logits = self.classifier.decode(logits, sentences[0].words)
        return logits, loss


class ElmoForSequenceClassification(ElmoTaskModel):
    """ELMo with a label for a sentence; with `head={"sentence_pairs": True}` for a pair `<S> a </S> <S> b </S>`."""

    task_class, linear_head, separates_pairs = "ElmoForSequenceClassification", LinearSentences, True
    output_class = SequenceClassifierOutput
    saved_pipelines = _pipeline("text-classification", "ElmoTextClassificationPipeline", "SequenceClassification")

    def logits_and_loss(self, sentences: list[HeadInput], labels: Any, items: Any) -> tuple[Tensor, Tensor | None]:
        """The logits of the head, and with labels the loss."""
        logits = self.classifier.logits(*sentences)  # (B, num_labels)
        if labels is None:
            return logits, None
        if self.config.problem_type is None:
            several = "multi_label_classification" if labels.is_floating_point() else "single_label_classification"
            self.config.problem_type = "regression" if self.num_labels == 1 else several
        if self.config.problem_type == "single_label_classification":
            _check_shape("labels", labels.reshape(-1), logits.shape[:1])
            return logits, self.task_loss(nll(logits, labels.reshape(-1)), items)
        if labels.numel() != logits.numel():
            _check_shape("labels", labels, logits.shape)
        loss = F.mse_loss if self.config.problem_type == "regression" else F.binary_cross_entropy_with_logits
        losses = loss(logits.float(), labels.to(torch.float32).view(logits.shape), reduction="none")
        return logits, self.task_loss(losses, items)


class ElmoForQuestionAnswering(ElmoTaskModel):
    """ELMo that answers a question by a span of a passage; `tokenizer(question, passage)` makes its input."""

    task_class, linear_head, separates_pairs = "ElmoForQuestionAnswering", LinearSpans, True
    # Score of a position that cannot begin or end an answer.
    masked_score = -1e4

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        word_vector_ids: Tensor | None = None,
        **keywords: Any,
    ) -> QuestionAnsweringModelOutput:
        """Positions (B,) are those of an answer's first and last word; with `no_answer`, 0 and 0 for none.

        The logits (B, T) are very low except at the words of the passage. With `no_answer`, the two logits of position
        0 add up to the score of no answer.
        """
        self.check_keywords(keywords, start_positions=start_positions, end_positions=end_positions)
        (question, passage), hidden_states = self.head_inputs(
            input_ids, attention_mask, inputs_embeds, token_type_ids, word_vector_ids, output_hidden_states, **keywords
        )
        start, end, none = self.classifier.spans(question, passage)
        start, end = (x.float().masked_fill(~passage.words, self.masked_score) for x in (start, end))  # (B, T)
        loss = None
        if (start_positions is None) != (end_positions is None):
            raise ValueError("Expected both `start_positions` and `end_positions`, or neither.")
        if start_positions is not None:
            self._check_answers(start_positions, end_positions, passage.words)
            losses = span_losses(start, end, none, start_positions, end_positions)
            loss = self.task_loss(losses, num_items_in_batch)
        if none is not None:
            start, end = (torch.cat([none[:, None].float() / 2, scores[:, 1:]], 1) for scores in (start, end))
        return QuestionAnsweringModelOutput(loss=loss, start_logits=start, end_logits=end, hidden_states=hidden_states)

    def _check_answers(self, starts: Tensor, ends: Tensor, words: Tensor):
        for name, positions in (("start_positions", starts), ("end_positions", ends)):
            _check_shape(name, positions, words.shape[:1])
        if can_inspect(words):
            expected = "the first and the last word of a span of the passage"
            for row, (first, last) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
                inside = 0 <= first <= last < words.shape[1] and words[row, first] and words[row, last]
                none = self.head_settings.no_answer and first == last == 0
                check(none or inside, f"answer of row {row}", (first, last), expected)

    def answer(self, tokenizer: Any, question: str, passage: str, **options: Any) -> Any:
        """The best span of a passage; options as for [`~ElmoForQuestionAnswering.answers`]."""
        return self.answers(tokenizer, [question], [passage], **options)[0]

    def answers(self, tokenizer: Any, questions: Sequence[str], passages: Sequence[str], **options: Any) -> list[Any]:
        """The best span of each passage, see `elmo_hf.tasks.questions.answers.find_answers`. Needs the package."""
        find_answers = package_attribute("tasks.questions.answers", "find_answers", "Answers to questions need")
        return find_answers(self, tokenizer, questions, passages, **options)


def span_losses(start: Tensor, end: Tensor, none: Tensor | None, starts: Tensor, ends: Tensor) -> Tensor:
    """`-log p` of each row's answer, (B,): `p(i, j) = exp(start_i + end_j) / Z`, and `exp(none) / Z` for no answer.

    `Z = exp(none) + sum_i sum_j exp(start_i + end_j)` (Clark and Gardner 2017); without `none`, one softmax per end.
    """
    total = start.logsumexp(1) + end.logsumexp(1)  # (B,)
    gold = (start.gather(1, starts[:, None]) + end.gather(1, ends[:, None])).squeeze(1)
    if none is not None:
        total = torch.logaddexp(total, none.float())
        gold = torch.where((starts == 0) & (ends == 0), none.float(), gold)
    return total - gold


class ElmoPipeline(Pipeline):
    """What the pipelines of transformers need for an ELMo."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        call_package("hub.consistency", "check_agreement", self.model.config, self.tokenizer)
        # `pipeline` leaves classes in the config that named this pipeline, and JSON cannot hold them.
        self.model.config.custom_pipelines = {}

    def check_model_type(self, supported_models: Any):
        """Nothing: the list of transformers does not contain classes from outside of it."""


class ElmoTextClassificationPipeline(ElmoPipeline, TextClassificationPipeline):
    """`pipeline("text-classification")` for ELMo; a pair is `{"text": ..., "text_pair": ...}`."""


class ElmoTokenClassificationPipeline(ElmoPipeline, TokenClassificationPipeline):
    """`pipeline("token-classification")` for ELMo, whose tokens are words.

    Words have no pieces, so `"first"`, `"average"` and `"max"` group as `"simple"` does. In a long text, read in
    chunks that overlap by `stride`, each word gets its label from the chunk that shows most of its context; entities
    are grouped afterwards.
    """

    def preprocess(self, sentence: Any, offset_mapping: Any = None, **params: Any) -> Iterator[dict[str, Any]]:
        """As in transformers; long texts become several chunks."""
        # transformers writes into this dictionary, which lives as long as the pipeline.
        params["tokenizer_params"] = dict(params.get("tokenizer_params", {}))
        return super().preprocess(sentence, offset_mapping, **params)

    def postprocess(
        self, all_outputs: Any, aggregation_strategy: Any = AggregationStrategy.NONE, ignore_labels: Any = None
    ) -> list[dict[str, Any]]:
        """Joins the chunks of a text and groups the labels of its words."""
        words: dict[Any, tuple[int, dict[str, Any]]] = {}  # by their place in the text, with their context
        for outputs in all_outputs:
            scores, word_ids = outputs["logits"][0].float().softmax(-1).numpy(), outputs["word_ids"]
            indices = (outputs["special_tokens_mask"][0] == 0).nonzero().flatten().tolist()
            for number, index in enumerate(indices):
                start, end = (int(place) for place in outputs["offset_mapping"][0][index])
                key = start if word_ids is None else word_ids[index]
                if word_ids is not None:  # offsets of pre-split words are relative to the word
                    start, end = (place + outputs["word_to_chars_map"][key][0] for place in (start, end))
                context = min(number, len(indices) - 1 - number)
                if key not in words or words[key][0] < context:
                    word = {"word": all_outputs[0]["sentence"][start:end], "start": start, "end": end, "index": index}
                    words[key] = (context, {**word, "scores": scores[index], "is_subword": False})
        entities = self.aggregate([word for _, word in words.values()], aggregation_strategy)
        ignored = ["O"] if ignore_labels is None else ignore_labels
        return [entity for entity in entities if entity.get("entity_group", entity.get("entity")) not in ignored]


ElmoForTokenClassification.register_for_auto_class("AutoModelForTokenClassification")
ElmoForSequenceClassification.register_for_auto_class("AutoModelForSequenceClassification")
ElmoForQuestionAnswering.register_for_auto_class("AutoModelForQuestionAnswering")

__all__ = [
    "ElmoForQuestionAnswering",
    "ElmoForSequenceClassification",
    "ElmoForTokenClassification",
    "ElmoTextClassificationPipeline",
    "ElmoTokenClassificationPipeline",
]
