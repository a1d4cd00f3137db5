"""Sharing models: registration with the Auto classes, model cards, pipelines, files for sentence-transformers."""
