"""Names of the rules by which the tokenizer splits raw text."""

# Those of `SPLITTINGS` in elmo_hf/model/splitting_elmo.py, for the help of the command line, which does not load
# transformers. A test holds them together.
SPLITTING_NAMES = ("moses-en", "whitespace", "unicode-words", "characters", "residues")

__all__ = ["SPLITTING_NAMES"]
