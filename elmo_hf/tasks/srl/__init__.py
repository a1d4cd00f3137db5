"""Semantic roles: the head of interleaved highway LSTMs, files of frames, metrics of arguments."""
