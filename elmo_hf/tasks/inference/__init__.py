"""Natural language inference: the ESIM head, pairs of SNLI."""
