"""The provenance of a pre-training run, and its model with a card that describes data, training and perplexity."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import torch

from elmore.corpus.corpus import Corpus
from elmore.errors import InputError
from elmore.formats import Checkpoint, ModelCard
from elmore.nn.devices import to_arrays
from elmore.pretraining.language_model_training import LanguageModelTraining
from elmore.training.loop import TrainingLoop
from elmore.training.trainable import Evaluation
from elmore.version import __version__


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The content of run.json."""

    corpus: Mapping[str, Any]  # its path, and its files with checksums
    init: Mapping[str, Any] | None = None  # of fine-tuning: name, source, fingerprint and softmax of the initial model
    character_vocabulary: Mapping[str, int] | None = None  # of the initial model
    commands: tuple[str, ...] = ()  # that started and resumed the run


def corpus_identity(corpus: Corpus) -> dict[str, Any]:
    """The path of a corpus, and its files with checksums."""
    return {"path": str(corpus.path), "files": _files(corpus)}


def check_same_corpus(stored: Mapping[str, Any], corpus: Corpus) -> None:
    """Raise InputError unless the corpus is the one that the run was started with."""
    before, now = stored["files"], _files(corpus)
    differing = [name for name in now if before.get(name, {}).get("sha256") != now[name]["sha256"]]
    if differing:
        sizes = "; ".join(
            f"{name} had {before.get(name, {}).get('bytes', 0):,} bytes and has {now[name]['bytes']:,}"
            for name in differing
        )
        raise InputError(
            f"{corpus.path}: is not the corpus of this run ({sizes}); give the corpus of the run, which was "
            f"{stored['path']}, or start a new run: -o RUN, with --init for the weights"
        )


def _files(corpus: Corpus) -> dict[str, Any]:
    return {name: asdict(file) for name, file in corpus.manifest.files.items()}


def export_checkpoint(
    training: LanguageModelTraining, loop: TrainingLoop, *, name: str, commands: tuple[str, ...]
) -> Checkpoint:
    """The trained model, to be written in any format."""
    model, initial, corpus = training.model, training.initial, training.corpus
    softmax = to_arrays({"weight": model.softmax_weight, "bias": model.softmax_bias})
    return Checkpoint(
        config=initial.recipe.model,
        tensors=to_arrays(model.network.state_dict()),
        vocabulary=initial.vocabulary,
        character_vocabulary=initial.character_vocabulary,
        softmax=lambda: softmax,
        card=ModelCard(
            name=name,
            description=f"{'Fine-tuned' if initial.init else 'Trained'} with elmore pretrain.",
            # The license of the initial model applies to the fine-tuned one.
            license=initial.init.get("license", initial.init.get("licence", "")) if initial.init else "",
            text=corpus.style,
            extra={
                "training": {
                    "commands": list(commands),
                    **_run_facts(loop),
                    "recipe": asdict(initial.recipe),
                    "init": initial.init,
                    "corpus": {
                        "inputs": list(corpus.manifest.inputs),
                        "parts": {name: asdict(part) for name, part in corpus.manifest.parts.items()},
                        "types": len(corpus.types),
                        "vocabulary": len(corpus.vocabulary),
                    },
                    "written_by": f"elmore {__version__}, torch {torch.__version__}",
                    "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
                }
            },
        ),
    )


def _run_facts(loop: TrainingLoop) -> Mapping[str, Any]:
    state, evaluations = loop.state, loop.evaluations
    return {
        "steps": state.done,
        "words_read": round(state.done * loop.trainable.tokens_per_step),
        "seconds": round(state.seconds, 1),
        "skipped_steps": sorted(state.skipped),
        "lr_scale": state.lr_scale,
        "heldout_perplexity": _perplexity_facts(evaluations.latest),
        "heldout_perplexity_before": _perplexity_facts(evaluations.baseline),
    }


def _perplexity_facts(evaluation: Evaluation | None) -> dict[str, Any] | None:
    if evaluation is None:
        return None
    return {"tokens": evaluation.tokens, "mean": round(evaluation.score, 4), "each": dict(evaluation.parts)}
