"""Names of the rules by which the tokenizer splits raw text."""

# Those of `SPLITTINGS` in elmo_hf/model/splitting_elmo.py: here they are known without loading transformers, for the help
# of the command line.
SPLITTING_NAMES = ("moses-en", "whitespace", "residues")

__all__ = ["SPLITTING_NAMES"]
