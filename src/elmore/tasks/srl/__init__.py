"""Semantic roles: the arguments of each predicate of a sentence."""
