"""The hot functions. `reference` is the truth, plain and differentiable; a faster kernel must agree with it."""

from elmore.kernels.reference import Clips, LstmWeights, recur

__all__ = ["Clips", "LstmWeights", "recur"]
