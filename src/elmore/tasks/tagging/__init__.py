"""Taggers: tasks that give each token a tag."""
