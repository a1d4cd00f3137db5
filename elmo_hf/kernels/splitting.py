"""Splitting of raw text in Python: the words of the Rust pre-tokenizer, found up to ten times as fast."""

import re
from collections.abc import Callable, Sequence
from typing import Any

# The words of pieces of text between white space. A cache holds at most this many pieces, each of at most this many
# characters: at most about 15 MB.
PieceCache = dict[str, tuple[str, ...]]
MAX_CACHED_PIECES, MAX_PIECE_LENGTH = 2**16, 64
# A text may have this many pieces, plus a quarter of all pieces, that are neither cached nor plain words.
MAX_UNCACHED_PIECES = 3
# White space for Python, but not for Rust.
PYTHON_ONLY_SPACE = re.compile("[\x1c-\x1f]")


def split_words(
    function: Callable[..., list[list[str]]],
    texts: Sequence[str],
    pre_tokenizer: Any,
    splitting: str,
    cache: PieceCache,
) -> Any:
    """Splits texts at white space, and for `"moses-en"` each piece as cached or by Rust."""

    def split_with_rust(texts: Sequence[str]) -> list[list[str]]:
        return function(texts, pre_tokenizer, splitting, cache)

    if splitting == "whitespace" and not any(map(PYTHON_ONLY_SPACE.search, texts)):
        return [text.split() for text in texts]
    if splitting == "moses-en":
        return [_split_pieces(text, split_with_rust, cache) for text in texts]
    return NotImplemented


def _split_pieces(text: str, split_with_rust: Callable, cache: PieceCache) -> list[str]:
    # An apostrophe at the very beginning or end of a text follows other rules than one inside.
    if text[:1] == "'" or text[-1:] == "'" or PYTHON_ONLY_SPACE.search(text):
        return split_with_rust([text])[0]
    words: list[str] = []
    pieces, uncached = text.split(), 0
    for number, piece in enumerate(pieces):
        piece_words = cache.get(piece)
        if piece_words is None:
            following = pieces[number + 1] if number + 1 < len(pieces) else ""
            # Only a final period depends on the text that follows, and only on its first letter.
            key = f"{piece} {following[:1]}" if piece[-1] == "." and len(piece) > 1 else piece
            piece_words = cache.get(key)
            if piece_words is None:
                piece_words = _split_piece(piece, key, split_with_rust, cache)
                uncached += piece_words != (piece,)
                if uncached > MAX_UNCACHED_PIECES + number // 4:  # not natural text: Rust is faster on all of it
                    return split_with_rust([text])[0]
        words += piece_words
    return words


def _split_piece(piece: str, key: str, split_with_rust: Callable, cache: PieceCache) -> tuple[str, ...]:
    """Splits one piece and adds it to the cache; `key` is the piece with the letter that follows, if that matters."""
    if piece.isascii() and piece.isalnum():
        piece_words = (piece,)
    else:
        (words,) = split_with_rust([f" {key} "])
        piece_words = tuple(words if key[-1] == " " or key is piece else words[:-1])
    if len(piece) <= MAX_PIECE_LENGTH:
        if len(cache) >= MAX_CACHED_PIECES:
            cache.clear()
        cache[key] = piece_words
    return piece_words
