"""What is compared: for every name the data, the variants of a recipe, and what of the recipe is changed for all.

Here names, sentiment and parts of speech; `text_comparisons.py` has the tasks that need more of a text understood.
"""

from comparison_parts import (
    FINE_TUNED,
    FRACTIONS,
    GAMMA,
    LAYERS,
    LONG_EPOCHS,
    PLACES,
    PLATEAU,
    WITHOUT_GLOVE,
    Comparison,
    changed,
    settings,
)
from text_comparisons import TEXT_COMPARISONS

from elmore.tasks.comparison.plan import WITHOUT, Variant, paper_variants

CONTEXT_FREE = "layer 0"

# Of tables 2 and 3, and of what sub-word input, the scale and layer normalisation do.
TABLES = (
    *paper_variants(),
    *LAYERS,
    *PLACES,
    GAMMA,
    changed("no layer norm", elmo__normalize=False),
    WITHOUT_GLOVE,
    FINE_TUNED,
    changed("biLM trained with the task", elmo__training="joint"),
)

# A linear layer on one layer of the biLM, and nothing beside it; measured against the context-free one.
PROBES = (
    Variant(name=CONTEXT_FREE, changes={"elmo.layers": 0}, baseline=None),
    *(Variant(name=f"layer {layer}", changes={"elmo.layers": layer}, baseline=CONTEXT_FREE) for layer in (1, 2)),
    Variant(name="mix of all", baseline=CONTEXT_FREE),
)
LINEAR = {"task.hidden": (), "words.character_filters": 0, "elmo.dropout": 0.0, "task.dropout": 0.0}

WIKINEURAL = {"train": "ner/wikineural-train.conll.xz", "dev": "ner/wikineural-dev.conll.xz"}
WNUT17 = {"train": "ner/wnut17-train.conll.xz", "dev": "ner/wnut17-dev.conll.xz"}
SST = {"train": "sentiment/sst-train.txt.xz", "dev": "sentiment/sst-dev.txt.xz"}
EWT = {"train": "pos/en_ewt-ud-train.conllu.xz", "dev": "pos/en_ewt-ud-dev.conllu.xz"}
WIKINEURAL_TESTS = {"WikiNEuRal": "ner/wikineural-test.conll.xz", "Wikigold": "ner/wikigold-test.conll.xz"}
WNUT17_TEST = {"WNUT-17": "ner/wnut17-test.conll.xz"}
SST_TEST = {"SST-5": "sentiment/sst-test.txt.xz"}
EWT_TEST = {"EWT": "pos/en_ewt-ud-test.conllu.xz"}

# How the recipes were chosen: by the dev set alone, which stands in for the test set.
NORM, AT_BOTH, TUNED = {"elmo.normalize": True}, {"elmo.where": "both"}, {"elmo.training": "fine-tuned"}
LARGE, FIXED, DROPPED = {"training.batch_size": 64}, {"words.trained": False}, {"elmo.dropout": 0.3}
NO_ELMO, NO_NORM = {"elmo.where": "none"}, {"elmo.normalize": False}
SLOWER, SLOW, FAST = ({"training.learning_rate": rate} for rate in (0.0001, 0.0003, 0.001))
AT_INPUT, HALF = {"elmo.where": "input"}, {"elmo.dropout": 0.5}


SETTINGS = {
    "wikineural": settings(
        without_plateau={**NO_ELMO, **LARGE, **PLATEAU},
        norm_plateau={**NORM, **LARGE, **PLATEAU},
        norm_plateau_dropout={**NORM, **LARGE, **PLATEAU, **DROPPED},
        norm_plateau_both={**NORM, **LARGE, **PLATEAU, **AT_BOTH},
        norm_plateau_fixed={**NORM, **LARGE, **PLATEAU, **FIXED},
        without_plateau_fixed={**NO_ELMO, **LARGE, **PLATEAU, **FIXED},
    ),
    "sst": settings(
        without_slow={**NO_ELMO, **SLOW},
        input_norm={**AT_INPUT, **NORM, **HALF, **FAST},
        both_norm={**AT_BOTH, **NORM, **HALF, **FAST},
        input_norm_slow={**AT_INPUT, **NORM, **HALF, **SLOW},
        both_norm_slow={**AT_BOTH, **NORM, **HALF, **SLOW},
        input_norm_fine_tuned={**AT_INPUT, **NORM, **HALF, **FAST, **TUNED},
    ),
    "wnut17": settings(
        without_plateau={**NO_ELMO, **PLATEAU},
        norm_plateau={**NORM, **PLATEAU},
        norm_fine_tuned={**NORM, **TUNED},
        norm={**NORM},
        norm_dropout={**NORM, **DROPPED},
        norm_fixed={**NORM, **FIXED},
        without_fixed={**NO_ELMO, **FIXED},
    ),
}
# What was tried when the test scores of the recipes had been seen, again by the dev set alone.
MORE_SETTINGS = {
    "wikineural": settings(
        without_plateau={**NO_ELMO, **LARGE, **PLATEAU},
        norm_plateau_half={**NORM, **LARGE, **PLATEAU, **HALF},
        norm_plateau_fine_tuned={**NORM, **LARGE, **PLATEAU, **TUNED},
        norm_plateau_joint={**NORM, **LARGE, **PLATEAU, "elmo.training": "joint"},
        norm_plateau_light_penalty={**NORM, **LARGE, **PLATEAU, "elmo.penalty": 0.001},
    ),
    "sst": settings(
        without_slow={**NO_ELMO, **SLOW},
        without_fast={**NO_ELMO, **FAST},
        input_norm_slower={**AT_INPUT, **NORM, **HALF, **SLOWER},
        input_norm_slow_dropout={**AT_INPUT, **NORM, **HALF, **SLOW, "task.input_dropout": 0.5},
        input_norm_slow_fine_tuned={**AT_INPUT, **NORM, **HALF, **SLOW, **TUNED},
        output_norm_slow={"elmo.where": "output", **NORM, **HALF, **SLOW},
        input_norm_slow_trained={**AT_INPUT, **NORM, **HALF, **SLOW, "words.trained": True},
        input_norm_slow_light={**AT_INPUT, **NORM, **DROPPED, **SLOW},
    ),
}
# Normalised layers are large beside GloVe's vectors, and gamma fell to half of 1 while a model learnt. From which scale
# it should begin, by the scores of a few epochs.
UNSCALED = {**SLOW, "elmo.gamma": 1.0}  # the recipe of sentiment until then
BRIEFLY = {"training.epochs": 8}
SCALED = {**AT_INPUT, **NORM, **HALF, **BRIEFLY}
NAMES_SCALED = {**NORM, **LARGE, **PLATEAU, "training.epochs": 20}
SCALES = {
    "wikineural": settings(
        gamma_1=NAMES_SCALED,
        gamma_03={**NAMES_SCALED, "elmo.gamma": 0.3},
        gamma_01={**NAMES_SCALED, "elmo.gamma": 0.1},
        gamma_03_light_penalty={**NAMES_SCALED, "elmo.gamma": 0.3, "elmo.penalty": 0.001},
    ),
    "sst": settings(
        gamma_1_slow={**SCALED, **SLOW},
        gamma_03_slow={**SCALED, **SLOW, "elmo.gamma": 0.3},
        gamma_03_fast={**SCALED, **FAST, "elmo.gamma": 0.3},
        gamma_01_fast={**SCALED, **FAST, "elmo.gamma": 0.1},
        gamma_03_fast_both={**SCALED, **FAST, "elmo.gamma": 0.3, **AT_BOTH},
        gamma_03_fast_dropout={**SCALED, **FAST, "elmo.gamma": 0.3, **DROPPED},
    ),
}

# At the low rate, which a recipe before had, the model without ELMo would be starved.
SST_BASELINE = Variant(name=WITHOUT, changes={**NO_ELMO, **FAST}, baseline=None, fractions=FRACTIONS)

# In the settings above the model without ELMo did better when it left GloVe's vectors alone.
FIXED_WITHOUT = "without ELMo, GloVe fixed"
FIXED_VECTORS = (
    Variant(name=FIXED_WITHOUT, changes={**NO_ELMO, **FIXED}, baseline=None),
    Variant(name="with ELMo, GloVe fixed", changes=FIXED, baseline=FIXED_WITHOUT),
)

# A tagger of ELMo's vectors alone, small enough to be shipped; chosen by the dev set.
SHIPPED = {
    "words.character_filters": 0,
    "task.hidden": (200,),
    "task.dropout": 0.5,
    "elmo.dropout": 0.33,
    "training.patience": 6,
    "training.plateau_factor": 0.5,
    "training.plateau_patience": 2,
}
TAGGERS = settings(one_layer_of_200=NO_NORM, layer_norm=NORM)

COMPARISONS = {
    "settings-wikineural": Comparison(
        task="ner", **WIKINEURAL, tests={"dev": WIKINEURAL["dev"]}, variants=SETTINGS["wikineural"]
    ),
    "settings-sst": Comparison(
        task="sentiment", **SST, tests={"dev": SST["dev"]}, variants=SETTINGS["sst"], changes=UNSCALED
    ),
    "settings-wnut17": Comparison(task="ner", **WNUT17, tests={"dev": WNUT17["dev"]}, variants=SETTINGS["wnut17"]),
    "more-settings-wikineural": Comparison(
        task="ner", **WIKINEURAL, tests={"dev": WIKINEURAL["dev"]}, variants=MORE_SETTINGS["wikineural"]
    ),
    "more-settings-sst": Comparison(
        task="sentiment", **SST, tests={"dev": SST["dev"]}, variants=MORE_SETTINGS["sst"], changes=UNSCALED
    ),
    "scales-wikineural": Comparison(
        task="ner", **WIKINEURAL, tests={"dev": WIKINEURAL["dev"]}, variants=SCALES["wikineural"]
    ),
    "scales-sst": Comparison(
        task="sentiment", **SST, tests={"dev": SST["dev"]}, variants=SCALES["sst"], changes=UNSCALED
    ),
    "ewt-tagger": Comparison(
        task="pos", **EWT, tests=EWT_TEST, variants=TAGGERS, changes=SHIPPED, vectors="none", keep_models=True
    ),
    "wikineural": Comparison(
        task="ner",
        **WIKINEURAL,
        tests=WIKINEURAL_TESTS,
        variants=paper_variants(fractions=FRACTIONS),
        changes={**LONG_EPOCHS, **LARGE, **PLATEAU},
    ),
    "wnut17": Comparison(task="ner", **WNUT17, tests=WNUT17_TEST, variants=(*TABLES, *FIXED_VECTORS)),
    "sst": Comparison(
        task="sentiment",
        **SST,
        tests=SST_TEST,
        variants=(SST_BASELINE, *paper_variants(fractions=FRACTIONS)[1:], *TABLES[2:]),
        changes=LONG_EPOCHS,
    ),
    # The recipe before, with which ELMo's model learnt slowly at first, and on little data was stopped before it had.
    "sst-unscaled": Comparison(
        task="sentiment",
        **SST,
        tests=SST_TEST,
        variants=(SST_BASELINE, *paper_variants(fractions=FRACTIONS)[1:]),
        changes={**LONG_EPOCHS, **UNSCALED},
    ),
    "ewt-upos": Comparison(task="pos", **EWT, tests=EWT_TEST, variants=paper_variants()),
    "ewt-xpos": Comparison(
        task="pos", **EWT, tests=EWT_TEST, variants=paper_variants(), changes={"task.tag_column": "xpos"}
    ),
    "ewt-upos-probes": Comparison(task="pos", **EWT, tests=EWT_TEST, variants=PROBES, changes=LINEAR, vectors="none"),
    "ewt-xpos-probes": Comparison(
        task="pos",
        **EWT,
        tests=EWT_TEST,
        variants=PROBES,
        changes={**LINEAR, "task.tag_column": "xpos"},
        vectors="none",
    ),
    **TEXT_COMPARISONS,
}
