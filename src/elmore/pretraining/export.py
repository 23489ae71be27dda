"""The finished model as plain data, with a card that says what it was made of and how well it predicts."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import torch

from elmore.formats import Checkpoint, ModelCard
from elmore.nn.devices import to_arrays
from elmore.pretraining.language_model_training import LanguageModelTraining
from elmore.training.run import TrainingRun
from elmore.training.trainable import Evaluation
from elmore.version import __version__


def export_checkpoint(
    training: LanguageModelTraining, run: TrainingRun, *, name: str, commands: tuple[str, ...]
) -> Checkpoint:
    """Ready to be written in any format."""
    model, initial, corpus = training.model, training.initial, training.corpus
    softmax = to_arrays({"weight": model.softmax_weight, "bias": model.softmax_bias})
    described = "Fine-tuned" if initial.init else "Trained"
    return Checkpoint(
        config=initial.recipe.model,
        tensors=to_arrays(model.network.state_dict()),
        vocabulary=initial.vocabulary,
        character_vocabulary=initial.character_vocabulary,
        softmax=lambda: softmax,
        card=ModelCard(
            name=name,
            description=f"{described} with elmore pretrain.",
            # The license of the initial model applies to what is trained from it.
            license=initial.init.get("license", initial.init.get("licence", "")) if initial.init else "",
            text=corpus.style,
            extra={
                "training": {
                    "commands": list(commands),
                    **_run_facts(run),
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


def _run_facts(run: TrainingRun) -> Mapping[str, Any]:
    state, evaluations = run.state, run.evaluations
    return {
        "steps": state.done,
        "words_read": round(state.done * run.trainable.tokens_per_step),
        "seconds": round(state.seconds, 1),
        "skipped_steps": sorted(state.skipped),
        "rate_share": state.rate_share,
        "heldout_perplexity": _perplexity_facts(evaluations.latest),
        "heldout_perplexity_before": _perplexity_facts(evaluations.baseline),
    }


def _perplexity_facts(found: Evaluation | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"tokens": found.tokens, "mean": round(found.score, 4), "each": dict(found.parts)}
