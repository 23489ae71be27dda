"""Choices and default values that Python and the command line share, written once, where importing costs nothing."""

from typing import Literal

DEFAULT_MODEL = "elmore-en"  # comes with the package
TINY_MODEL = "tiny-random"  # built in

StateName = Literal["fixed", "carry"]  # each sentence from the model's start state, or from where the one before ended
DtypeName = Literal["float32", "float16"]  # of vectors that are given out
EngineName = Literal["native", "numpy", "gpu"]
ComputeName = Literal["float32", "tf32", "bfloat16", "int8"]  # what the network computes in

# Embedding.
DEFAULT_LAYERS: Literal["average"] = "average"
DEFAULT_STATE: StateName = "fixed"
DEFAULT_DTYPE: DtypeName = "float32"
DEFAULT_COMPUTE: ComputeName = "float32"
DEFAULT_BATCH_TOKENS = 2048  # on a CPU; a GPU reads as much at once as suits it and the model
DEFAULT_CARRY_BATCH_SIZE = 64  # as `allennlp elmo` had it; with a carried state it changes the numbers

# Perplexity: of a text that is read as in training, on from sentence to sentence.
DEFAULT_PERPLEXITY_STATE: StateName = "carry"
DEFAULT_PERPLEXITY_BATCH_SIZE = 64
# Where a row takes up another passage, it knows nothing of what it reads: in short ones documents seem less likely.
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
