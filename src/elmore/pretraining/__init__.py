"""Pre-training of biLMs: predict the next and the previous word of a prepared corpus."""
