"""The network, as torch modules: word encoder, biLM, its state and layers, and the mix. No files, no devices chosen."""
