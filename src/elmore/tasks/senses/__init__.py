"""Word senses (`wsd`) and words in context (`wic`)."""
