"""How the bytes of model files are stored: archives, HDF5, safetensors, torch and TensorFlow files, JSON, checksums."""
