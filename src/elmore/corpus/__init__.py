"""Prepared corpora on disk: written from raw text, opened for reading, with a held-out part."""
