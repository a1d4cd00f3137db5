"""Sentiment: the biattentive classification network, trees of the Stanford Sentiment Treebank."""
