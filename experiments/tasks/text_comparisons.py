"""What is compared where more of a text must be understood: answers, entailment, semantic roles, coreference.

The paper's tables are names of their own, such as snli-layers; those of one data set share their trainings.
"""

from collections.abc import Mapping
from typing import Any

from comparison_parts import (
    CUTS,
    FINE_TUNED,
    FRACTIONS,
    GAMMA,
    LONG_EPOCHS,
    PLACES,
    PLATEAU,
    WITHOUT_GLOVE,
    Comparison,
    changed,
    settings,
)

from elmore.tasks.comparison.plan import Variant, paper_variants

SQUAD = {
    "task": "squad",
    "train": ("squad/squad-v1.1-train-cut.json.xz", f"{CUTS}squad-articles-01-32.json"),
    "dev": f"{CUTS}squad-articles-33-36.json",
    # Of the last article the biLM has read an older version.
    "tests": {
        "SQuAD, articles 37 to 48": f"{CUTS}squad-articles-37-48.json",
        "SQuAD, articles 37 to 47": f"{CUTS}squad-articles-37-47.json",
    },
}
# To choose by, many questions: those of four articles tell too little. The test set is no part of it.
SQUAD_TO_CHOOSE = {
    **SQUAD,
    "train": "squad/squad-v1.1-train-cut.json.xz",
    "dev": f"{CUTS}squad-articles-01-36.json",
}
SNLI = {
    "task": "entailment",
    "train": "entailment/snli-train-cut.jsonl.xz",
    "dev": "entailment/snli-dev.jsonl.xz",
    "tests": {"SNLI": "entailment/snli-test.jsonl.xz"},
}
MNLI = {
    "task": "entailment",
    "train": "entailment/mnli-train-cut.jsonl.xz",
    "dev": f"{CUTS}mnli-dev.jsonl",
    "tests": {"MultiNLI": f"{CUTS}mnli-test.jsonl"},
}
SRL = {
    "task": "srl",
    "train": "srl/ewt-train.conll.xz",
    "dev": "srl/ewt-dev.conll.xz",
    "tests": {"PropBank on EWT": "srl/ewt-test.conll.xz"},
}
LITBANK = {
    "task": "coref",
    "train": "coref/litbank-train.conll.xz",
    "dev": "coref/litbank-dev.conll.xz",
    "tests": {"LitBank, fold 0": "coref/litbank-test.conll.xz"},
}
ONTOGUM = {
    "task": "coref",
    "train": "coref/ontogum-train.conll.xz",
    "dev": "coref/ontogum-dev.conll.xz",
    "tests": {"OntoGUM": "coref/ontogum-test.conll.xz"},
}

# What of the recipes, which are the paper's for far more data, is changed for all, with ELMo and without. Adadelta, by
# which the paper's readers and roles were learnt from more, makes way for Adam, whose rate falls where the dev score is
# flat; a few dozen documents are read twice before they are scored. GloVe's words have no capitals. Normalised layers
# are large beside GloVe's vectors and begin with a small scale. By the paper's dropout and rate, for half a million
# pairs, entailment is hardly learnt at all from twenty thousand without ELMo.
NORM, NO_NORM = {"elmo.normalize": True, "elmo.gamma": 0.3}, {"elmo.normalize": False, "elmo.gamma": 1.0}
ADAM = {"training.optimizer": "adam", "training.learning_rate": 0.001}
ADADELTA = {"training.optimizer": "adadelta", "training.learning_rate": 1.0, "training.plateau_factor": 1.0}
# Words that GloVe lacks are as unknown in training as the others are later, and no vector of a rare name is learnt.
ONE_UNKNOWN = {"words.min_count": 1_000_000}
READING_AT_FIRST: dict[str, Any] = {**NORM, "training.epochs": 40}
READING: dict[str, Any] = {**READING_AT_FIRST, **ADAM, **PLATEAU, **ONE_UNKNOWN, "elmo.dropout": 0.3}
LIGHT = {"task.dropout": 0.3, "task.attended_dropout": 0.2}
ENTAILING: dict[str, Any] = {**NORM, **LONG_EPOCHS, **LIGHT, "training.learning_rate": 0.001}
ROLES: dict[str, Any] = {**NORM, **ADAM, **PLATEAU, **LONG_EPOCHS, "training.patience": 6}
CLUSTERS: dict[str, Any] = {
    **NORM,
    **PLATEAU,
    "words.lowercase": True,
    "training.min_epoch_steps": 160,
    "training.epochs": 60,
    "training.patience": 6,
}

# Whether others would be better for one side or the other, by the dev set, which stands in for the test set.
HEAVY = {"task.dropout": 0.5, "task.attended_dropout": 0.5}
LIGHTER = {"task.dropout": 0.2, "task.attended_dropout": 0.0}
SLOW = {"training.learning_rate": 0.0004}
UNSCALED = {"elmo.gamma": 1.0}
NO_ELMO = {"elmo.where": "none"}
MORE_DROPOUT = {"task.dropout": 0.3}
SETTINGS = {
    "squad": settings(
        without=NO_ELMO,
        without_one_unknown={**NO_ELMO, **ONE_UNKNOWN},
        without_one_unknown_more_dropout={**NO_ELMO, **ONE_UNKNOWN, **MORE_DROPOUT},
        without_one_unknown_Adam={**NO_ELMO, **ONE_UNKNOWN, **ADAM, **PLATEAU},
        with_ELMo={},
        with_ELMo_one_unknown=ONE_UNKNOWN,
        with_ELMo_one_unknown_more_dropout={**ONE_UNKNOWN, **MORE_DROPOUT},
        with_ELMo_one_unknown_Adam={**ONE_UNKNOWN, **ADAM, **PLATEAU},
        with_ELMo_one_unknown_no_layer_norm={**ONE_UNKNOWN, **NO_NORM},
        with_ELMo_one_unknown_small_scale={**ONE_UNKNOWN, "elmo.gamma": 0.1},
        with_ELMo_one_unknown_less_ELMo_dropout={**ONE_UNKNOWN, "elmo.dropout": 0.3},
        with_ELMo_one_unknown_penalty={**ONE_UNKNOWN, "elmo.penalty": 0.001},
        with_ELMo_one_unknown_fine_tuned={**ONE_UNKNOWN, "elmo.training": "fine-tuned"},
        with_ELMo_without_GloVe={"words.vectors": "none"},
    ),
    "snli": settings(
        without=NO_ELMO,
        without_paper={**NO_ELMO, **HEAVY, **SLOW},
        without_lighter={**NO_ELMO, **LIGHTER},
        without_slow={**NO_ELMO, **SLOW},
        with_ELMo={},
        with_ELMo_paper={**HEAVY, **SLOW},
        with_ELMo_lighter=LIGHTER,
        with_ELMo_unscaled=UNSCALED,
    ),
    "srl": settings(
        without=NO_ELMO,
        without_Adadelta={**NO_ELMO, **ADADELTA},
        with_ELMo={},
        with_ELMo_Adadelta=ADADELTA,
        with_ELMo_unscaled=UNSCALED,
        with_ELMo_no_layer_norm=NO_NORM,
    ),
    "litbank": settings(
        without=NO_ELMO,
        without_slow={**NO_ELMO, "training.learning_rate": 0.0005},
        with_ELMo={},
        with_ELMo_slow={"training.learning_rate": 0.0005},
        with_ELMo_unscaled=UNSCALED,
        with_ELMo_no_layer_norm=NO_NORM,
    ),
}

LAYERS = paper_variants(layers=["last", "all"], penalties=[1, 0.001])[2:]
LAST_UNSCALED = changed("layers=last, gamma fixed at 1", elmo__layers="last", elmo__gamma=1.0, elmo__train_gamma=False)
CONTEXT_FREE = changed("context-free layer without GloVe", elmo__layers=0, words__vectors="none")


def tables(name: str, data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Comparison]:
    """With ELMo and without on a data set, and the paper's tables on the same, each by a name."""
    rows: dict[str, tuple[Variant, ...]] = {
        name: (),
        f"{name}-layers": LAYERS,
        f"{name}-places": PLACES,
        f"{name}-subword": (CONTEXT_FREE, WITHOUT_GLOVE),
        f"{name}-gamma": (GAMMA, LAST_UNSCALED),
        f"{name}-fine-tuning": (FINE_TUNED,),
    }
    return {
        table: Comparison(**data, variants=(*paper_variants(), *own), changes=changes, trained_in=name)
        for table, own in rows.items()
    }


def samples(name: str, data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Comparison]:
    """Figure 1: shares of the training examples."""
    variants = paper_variants(fractions=FRACTIONS)
    return {f"{name}-fractions": Comparison(**data, variants=variants, changes=changes, trained_in=name)}


def chosen_by_dev(name: str, data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Comparison]:
    only_dev = {**data, "tests": {"dev": data["dev"]}}
    return {f"settings-{name}": Comparison(**only_dev, variants=SETTINGS[name], changes=changes)}


TEXT_COMPARISONS = {
    **chosen_by_dev("squad", SQUAD_TO_CHOOSE, READING_AT_FIRST),
    **chosen_by_dev("snli", SNLI, ENTAILING),
    **chosen_by_dev("srl", SRL, ROLES),
    **chosen_by_dev("litbank", LITBANK, CLUSTERS),
    **tables("squad", SQUAD, READING),
    **tables("snli", SNLI, ENTAILING),
    **samples("snli", SNLI, ENTAILING),
    "mnli": Comparison(**MNLI, variants=paper_variants(), changes=ENTAILING),
    **tables("srl", SRL, ROLES),
    **samples("srl", SRL, ROLES),
    "litbank": Comparison(**LITBANK, variants=paper_variants(), changes=CLUSTERS),
    "ontogum": Comparison(**ONTOGUM, variants=paper_variants(), changes=CLUSTERS),
}
