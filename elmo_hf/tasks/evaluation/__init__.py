"""Evaluation: scores with confidence intervals, per label, confusions, worst examples, and paired tests."""
