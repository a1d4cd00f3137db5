"""Annotation: labels of words and sentences by fine-tuned models, for texts and for whole corpora."""
