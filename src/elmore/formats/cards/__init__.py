"""What is known of a model beside its numbers: its card, and how a maker or a saved `Elmo` fills it."""
