"""Sentiment: the biattentive network on trees of the Stanford Sentiment Treebank. Prints accuracy of five classes."""

from common import recipe

main = recipe(
    "sentiment", __doc__, epochs=4, lr=0.003, flags={"phrases": "train on every labelled phrase; needs --dev"}
)

if __name__ == "__main__":
    main()
