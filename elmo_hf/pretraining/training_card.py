"""The facts of a run for the model card: text, training, perplexity."""

from typing import Any

from elmo_hf.hub.model_card import escaped
from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.pretraining.corpus import Corpus
from elmo_hf.pretraining.corpus_preparation import corpus_name
from elmo_hf.pretraining.settings import Settings


def card_data(
    settings: Settings, config: ElmoConfig, corpus: Corpus, steps: int, perplexities: dict[str, float], splitting: str
) -> dict[str, Any]:
    """Returns `license`, `language` and `origin` for the model card; those of the model of --from are extended."""
    before = dict(config.card_data or {}) if settings.start is not None else {}
    if settings.new_vocab:
        before.pop("language", None)  # the text may be of another language
    text = escaped(corpus_name(settings))
    origin = [f"Trained by `elmo-hf pretrain` on {text}"]
    if settings.start is not None:
        start = escaped(str(settings.start).rstrip("/").rpartition("/")[2])
        tuned = f"Tuned by `elmo-hf pretrain` from {start} on {text}"
        origin = [f"{before.get('origin', '')}\n\n{tuned}".lstrip()]
    assert settings.batch_size is not None
    words = settings.batch_size * settings.unroll_steps * settings.accumulate * steps
    origin.append(
        f": {corpus.num_sentences:,} sentences of {corpus.num_words:,} words, split by {splitting}. {steps:,} steps, "
        f"in which each direction read {words:,} tokens, by {settings.chosen('optimizer')} at a rate of "
        f"{settings.chosen('learning_rate'):g} ({settings.chosen('schedule')})."
    )
    if "after" in perplexities:
        text = "the held-out text" if settings.held_out else "sentences of that text that were held out"
        origin.append(f" Perplexity of {text}, over all {config.vocab_size:,} words: {perplexities['after']:.1f}.")
    metadata = {"license": settings.license, "language": settings.language}
    return {**before, **{key: value for key, value in metadata.items() if value}, "origin": "".join(origin)}
