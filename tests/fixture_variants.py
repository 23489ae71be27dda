"""The variants of the network that bilm-tf trained and dumped: the folders in `shared/fixtures/variants`."""

VARIANTS = [
    "no_projections",
    "one_layer",
    "proj_clip_without_projection",
    "three_layers_tight_clip",
    "unidirectional",
    "unidirectional_one_layer_words",
    "word_input",
]

# Those that read words by a table, and so come with a vocabulary.
WORD_VARIANTS = {"unidirectional_one_layer_words", "word_input"}
