"""Readers of the files that contain models: folders, archives, HDF5, safetensors, torch and TensorFlow files."""
