"""Question answering: the span of a paragraph that answers a question, as in SQuAD 1.1."""
