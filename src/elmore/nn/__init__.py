"""The torch part of the package: the biLM as a module, the layer mix, and kernels for training and for GPUs."""
