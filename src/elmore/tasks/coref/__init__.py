"""Coreference: the spans of a document that refer to the same entity."""
