"""Using a language model: scores of sentences, substitutes of words, perplexity of texts."""
