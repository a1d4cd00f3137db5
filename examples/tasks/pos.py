"""Parts of speech: one linear layer on files in CoNLL-U. Prints accuracy; --elmo none is --vectors alone."""

from common import recipe

# A linear layer has no output for ELMo to join.
main = recipe("pos", __doc__, epochs=3, lr=0.005, places=("none", "input"))

if __name__ == "__main__":
    main()
