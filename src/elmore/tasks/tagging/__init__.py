"""Taggers: tasks that give each token of a sentence a tag."""
