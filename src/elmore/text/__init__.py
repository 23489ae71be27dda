"""From text to what the network reads: sentences, words, characters, batches."""
