"""Vectors for whoever asks: arrays (Embedder), a module for one's own model (Elmo), files on disk and back (sinks)."""
