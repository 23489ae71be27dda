"""From a prepared corpus to a language model: learn to predict the next and the previous word."""
