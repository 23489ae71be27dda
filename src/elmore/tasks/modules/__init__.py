"""Torch modules that several task models share. They know of tensors, and of no file, recipe or task.

B sentences, T tokens, D size. Masks are bool (B, T), true where there is a token, and padding is at the end; whatever
finite number stands there never counts. A sentence may be empty, and so may all sentences of a batch.
"""
