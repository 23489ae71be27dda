"""Inference without torch: character ids in, word vectors out; packed rows and a state in, layers and a state out.

engine.py         the interface of engines
open_engine.py    the one place that chooses an implementation
numpy_engine.py   the specification, in plain NumPy
native_engine.py  the C++ kernels in `native/`
rows.py           sentences packed into rows
word_store.py     word vectors computed earlier
"""

from elmore.engine.open_engine import open_engine

__all__ = ["open_engine"]
