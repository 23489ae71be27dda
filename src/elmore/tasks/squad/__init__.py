"""Answers to questions about paragraphs (SQuAD)."""
