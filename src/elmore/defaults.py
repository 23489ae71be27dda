"""Default values that both Python and the command line have, written once, where importing them costs nothing."""

DEFAULT_MODEL = "elmore-en"  # comes with the package

# Embedding.
DEFAULT_BATCH_TOKENS = 2048
DEFAULT_CARRY_BATCH_SIZE = 64  # as `allennlp elmo` had it; with a carried state it changes the numbers

# Perplexity, where the state is carried.
DEFAULT_PERPLEXITY_BATCH_SIZE = 64
# Where a row takes up another passage, it knows nothing of what it reads: with 32, documents seem some 3 % less likely.
DEFAULT_PASSAGE = 256  # sentences

# Substitutes.
DEFAULT_TOP = 10

# Preparing a corpus.
DEFAULT_VOCABULARY_SIZE = 50_000
DEFAULT_HELDOUT_SHARE = 0.005
DEFAULT_LANGUAGE = "en"
DEFAULT_PREPARE_SEED = 1

# Pre-training.
DEFAULT_RECIPE = "small"
DEFAULT_FINE_TUNING_RECIPE = "fine-tuning"
