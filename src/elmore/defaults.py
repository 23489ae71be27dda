"""Choices and default values for Python and the command line. This module imports nothing heavy."""

from typing import Literal

DEFAULT_MODEL = "elmore-en"  # comes with the package
TINY_MODEL = "tiny-random"  # built in

StateName = Literal["fixed", "carry"]  # each sentence from the start state, or from the last state
DtypeName = Literal["float32", "float16"]  # of returned vectors
EngineName = Literal["native", "numpy", "gpu"]
ComputeName = Literal["float32", "tf32", "bfloat16", "int8"]  # the number type of inference

# Embedding.
DEFAULT_LAYERS: Literal["average"] = "average"
DEFAULT_STATE: StateName = "fixed"
DEFAULT_DTYPE: DtypeName = "float32"
DEFAULT_COMPUTE: ComputeName = "float32"
DEFAULT_BATCH_TOKENS = 2048  # on a CPU; on a GPU it depends on the device and the model
DEFAULT_CARRY_BATCH_SIZE = 64  # as in `allennlp elmo`; with a carried state, the vectors depend on it

# Perplexity, with the state carried from sentence to sentence, as in training.
DEFAULT_PERPLEXITY_STATE: StateName = "carry"
DEFAULT_PERPLEXITY_BATCH_SIZE = 64
# The state at the start of a passage has no context: with shorter passages the perplexity is higher.
DEFAULT_PASSAGE = 256  # sentences

# Substitutes.
DEFAULT_TOP = 10

# Preparing a corpus.
DEFAULT_VOCABULARY_SIZE = 50_000
DEFAULT_HELDOUT_SHARE = 0.005
DEFAULT_PREPARE_SEED = 1

# Pre-training.
DEFAULT_RECIPE = "small"
DEFAULT_FINE_TUNING_RECIPE = "fine-tuning"
