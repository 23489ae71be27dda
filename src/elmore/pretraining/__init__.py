"""From raw text to a language model: prepare a corpus, then learn to predict the next and the previous word."""
