"""What is compared: for every name the data, the variants of a recipe, and what of the recipe is changed for all."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from elmore.tasks.comparison.variants import WITHOUT, Variant, paper_variants

FRACTIONS = (0.01, 0.03, 0.1, 0.3)
GLOVE = "vectors/glove.6B.100d.cut.txt.xz"
CONTEXT_FREE = "layer 0"
LONG_EPOCHS = {"training.min_epoch_steps": 50}  # where one hundredth of the data would be read in four steps


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The arguments of `compare`; files are below the data's folder."""

    task: str
    train: str
    dev: str
    tests: Mapping[str, str]
    variants: tuple[Variant, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the task's recipe
    vectors: str = GLOVE
    keep_models: bool = False


def changed(name: str, *, baseline: str | None = WITHOUT, **changes: Any) -> Variant:
    """A variant by the fields it changes, with two underscores for a dot."""
    changes = {name.replace("__", "."): value for name, value in changes.items()}
    return Variant(name=name, changes=changes, baseline=baseline)


# Of tables 2 and 3, and of what sub-word input, the scale and layer normalisation do.
TABLES = (
    *paper_variants(layers=["all", "average", "last", 1, 0], penalties=[1, 0.001], where=["input", "output", "both"]),
    changed("gamma fixed at 1", elmo__train_gamma=False),
    changed("no layer norm", elmo__normalize=False),
    changed("ELMo without GloVe", words__vectors="none"),
    changed("biLM fine-tuned on the task's text", elmo__training="fine-tuned"),
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
PLATEAU = {"training.plateau_factor": 0.5, "training.plateau_patience": 2}
NORM, AT_BOTH, FINE_TUNED = {"elmo.normalize": True}, {"elmo.where": "both"}, {"elmo.training": "fine-tuned"}
LARGE, FIXED, DROPPED = {"training.batch_size": 64}, {"words.trained": False}, {"elmo.dropout": 0.3}
NO_ELMO, NO_NORM = {"elmo.where": "none"}, {"elmo.normalize": False}
SLOWER, SLOW, FAST = ({"training.learning_rate": rate} for rate in (0.0001, 0.0003, 0.001))
AT_INPUT, HALF = {"elmo.where": "input"}, {"elmo.dropout": 0.5}


def settings(**variants: Mapping[str, Any]) -> tuple[Variant, ...]:
    """Variants by name, the first of which the others are measured against."""
    first, *_ = names = [name.replace("_", " ") for name in variants]
    rows = zip(names, variants.values(), strict=True)
    return tuple(Variant(name=name, changes=own, baseline=None if name == first else first) for name, own in rows)


SETTINGS = {
    "wikineural": settings(
        without_plateau={**NO_ELMO, **LARGE, **PLATEAU},
        norm_plateau={**NORM, **LARGE, **PLATEAU},
        norm_plateau_dropout={**NORM, **LARGE, **PLATEAU, **DROPPED},
        norm_plateau_both={**NORM, **LARGE, **PLATEAU, **AT_BOTH},
        norm_plateau_fixed={**NORM, **LARGE, **PLATEAU, **FIXED},
        without_plateau_fixed={**NO_ELMO, **LARGE, **PLATEAU, **FIXED},
        norm_plateau_fine_tuned={**NORM, **LARGE, **PLATEAU, **FINE_TUNED},
        norm_plateau_half={**NORM, **LARGE, **PLATEAU, **HALF},
        norm_plateau_joint={**NORM, **LARGE, **PLATEAU, "elmo.training": "joint"},
        norm_plateau_light_penalty={**NORM, **LARGE, **PLATEAU, "elmo.penalty": 0.001},
    ),
    "sst": settings(
        without_slow={**NO_ELMO, **SLOW},
        input_norm={**AT_INPUT, **NORM, **HALF, **FAST},
        both_norm={**AT_BOTH, **NORM, **HALF, **FAST},
        input_norm_slow={**AT_INPUT, **NORM, **HALF, **SLOW},
        both_norm_slow={**AT_BOTH, **NORM, **HALF, **SLOW},
        input_norm_fine_tuned={**AT_INPUT, **NORM, **HALF, **FAST, **FINE_TUNED},
        input_norm_slower={**AT_INPUT, **NORM, **HALF, **SLOWER},
        input_norm_slow_dropout={**AT_INPUT, **NORM, **HALF, **SLOW, "task.input_dropout": 0.5},
        input_norm_slow_fine_tuned={**AT_INPUT, **NORM, **HALF, **SLOW, **FINE_TUNED},
        without_fast={**NO_ELMO, **FAST},
        output_norm_slow={"elmo.where": "output", **NORM, **HALF, **SLOW},
        input_norm_slow_trained={**AT_INPUT, **NORM, **HALF, **SLOW, "words.trained": True},
        input_norm_slow_light={**AT_INPUT, **NORM, "elmo.dropout": 0.3, **SLOW},
    ),
    "wnut17": settings(
        without_plateau={**NO_ELMO, **PLATEAU},
        norm_plateau={**NORM, **PLATEAU},
        norm_fine_tuned={**NORM, **FINE_TUNED},
        norm={**NORM},
        norm_dropout={**NORM, **DROPPED},
        norm_fixed={**NORM, **FIXED},
        without_fixed={**NO_ELMO, **FIXED},
    ),
}

# At the rate that is best with ELMo the model without it would be starved.
SST_BASELINE = Variant(name=WITHOUT, changes={**NO_ELMO, **FAST}, baseline=None, fractions=FRACTIONS)

# With so little data the model without ELMo does better when it leaves GloVe's vectors alone.
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
    "settings-sst": Comparison(task="sentiment", **SST, tests={"dev": SST["dev"]}, variants=SETTINGS["sst"]),
    "settings-wnut17": Comparison(task="ner", **WNUT17, tests={"dev": WNUT17["dev"]}, variants=SETTINGS["wnut17"]),
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
}
