"""The finished model as plain data, with a card that says what it was made of and how well it predicts."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import torch

from elmore.corpus.corpus import Corpus
from elmore.formats import Card, Checkpoint
from elmore.network.language_model import LanguageModel
from elmore.pretraining.beginning import Beginning
from elmore.version import __version__


def finished_model(
    model: LanguageModel, beginning: Beginning, corpus: Corpus, *, name: str, facts: Mapping[str, Any]
) -> Checkpoint:
    """Ready to be written in any format; `facts` are those of the run, to which the card adds those of its text."""
    softmax = {"weight": model.softmax_weight.detach().cpu(), "bias": model.softmax_bias.detach().cpu()}
    described = "Fine-tuned" if beginning.init else "Trained"
    return Checkpoint(
        config=beginning.recipe.model,
        tensors={name: tensor.detach().cpu() for name, tensor in model.network.state_dict().items()},
        vocabulary=beginning.vocabulary,
        characters=beginning.characters,
        softmax=lambda: softmax,
        card=Card(
            name=name,
            description=f"{described} with elmore pretrain.",
            # What grows out of a model is bound by its licence; the maker may say more.
            licence=(beginning.init or {}).get("licence") or "",
            text=corpus.style,
            extra={
                "training": {
                    **facts,
                    "recipe": asdict(beginning.recipe),
                    "init": beginning.init,
                    "corpus": {
                        "inputs": corpus.manifest.get("inputs", []),
                        "parts": corpus.manifest["parts"],
                        "types": len(corpus.types),
                        "vocabulary": len(corpus.vocabulary),
                    },
                    "written_by": f"elmore {__version__}, torch {torch.__version__}",
                    "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
                }
            },
        ),
    )
