"""Torch modules that several task models share. They use tensors only, no files, recipes or tasks.

B sentences, T tokens, D size. Masks are bool (B, T), true at tokens; padding is at the end. Padding may hold any finite
number and never changes a result. A sentence may be empty, and all sentences of a batch may be empty.
"""
