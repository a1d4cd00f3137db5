"""Coreference: the model, the head that ranks spans, CoNLL-2012 files, metrics."""
