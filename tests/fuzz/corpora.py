"""Corpora that are written and read again, and damaged caches of corpora."""

import random
from pathlib import Path

from elmo_hf import ElmoTokenizer
from elmo_hf.pretraining import Corpus
from fuzz.damage import damaged
from fuzz.tokenizer import text


def trial(rng: random.Random, folder: Path) -> str:
    """Writes a corpus, reads it, damages it and reads it again."""
    tokenizer = ElmoTokenizer(rng.choice(["whitespace", "moses-en"]))
    lines = [text(rng, 40) for _ in range(rng.choice([1, 5, 40]))]
    expected = [words for words in tokenizer.split(lines) if words]
    try:
        corpus = Corpus.write(lines, folder / "corpus", tokenizer)
    except ValueError as error:
        assert not expected and not list(folder.iterdir()), "something was left behind"
        return str(error)
    words_read = [
        [corpus.words[number] for number in corpus.sentence(row)[1:-1]] for row in range(corpus.num_sentences)
    ]
    assert words_read == expected and corpus.counts.sum() == len(corpus.tokens)
    del corpus
    whole = rng.random() < 0.25
    if not whole:
        file = rng.choice(sorted((folder / "corpus").iterdir()))
        file.write_bytes(damaged(rng, file.read_bytes()))
    try:
        again = Corpus(folder / "corpus")
        _ = [again.sentence(row) for row in range(again.num_sentences)], again.words
    except (ValueError, OSError) as error:
        assert not whole, f"a whole corpus is refused: {error}"
        return str(error)
    return "accepted"
