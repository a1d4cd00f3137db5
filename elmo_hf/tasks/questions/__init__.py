"""Question answering: the BiDAF head, SQuAD files, answers to questions, metrics."""
