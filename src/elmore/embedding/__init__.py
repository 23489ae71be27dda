"""Word vectors as arrays (Embedder), as a torch module (Elmo), and as files (embed_file, open_vectors)."""
