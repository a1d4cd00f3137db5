"""Semantic roles: interleaved highway LSTMs on JSON lines of words and frames. Prints F1 of whole arguments."""

from common import recipe

main = recipe("srl", __doc__, epochs=4, lr=0.01)

if __name__ == "__main__":
    main()
