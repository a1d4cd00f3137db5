"""Labels of words: the biLSTM-CRF head, CoNLL and CoNLL-U files, labels at input positions, entity metrics."""
