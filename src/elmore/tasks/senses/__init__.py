"""Word senses and words in context."""
