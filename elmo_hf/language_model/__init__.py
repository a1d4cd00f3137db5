"""The language model in use: scores, substitutes, perplexity."""
