"""Inputs of task models: vocabulary, batches of tokens, embeddings, and the layers of a biLM."""
