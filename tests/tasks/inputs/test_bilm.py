"""A biLM that is trained with a task reads as a frozen one does, and within bounds."""

import pytest
import torch

from elmore import load
from elmore.embedding.embedder import Embedder
from elmore.tasks.core.trainer import ExponentialMovingAverage
from elmore.tasks.inputs.bilm import JointElmo
from elmore.tasks.inputs.layer_cache import LayerReader
from elmore.text.style import TokenStyle

SENTENCES: dict[TokenStyle, list[list[str]]] = {
    "moses": [["He", "didn", "'t", "take", "a", "bow"], ["Why", "?"], ["Nobody", "knows", "."]],
    "penn": [["He", "did", "n't", "take", "-LRB-", "a", "bow", "-RRB-"], ["Why", "?"], ["I", "ca", "n't", "."]],
}


@pytest.mark.parametrize("style", SENTENCES)
@pytest.mark.parametrize("unfreeze_every", [0.0, 1.0])  # all of it trained, and the top layer alone
def test_the_layers_are_those_of_a_frozen_bilm(style: TokenStyle, unfreeze_every: float) -> None:
    model = load("tiny-random")
    joint = JointElmo(model, token_style=style, unfreeze_every=unfreeze_every)
    expected = LayerReader(Embedder(model, device="cpu"), token_style=style, dtype="float32").layers(SENTENCES[style])
    joint.unfreeze(0)
    found = joint(SENTENCES[style])
    assert found.requires_grad
    for row, layers in zip(found, expected, strict=True):
        torch.testing.assert_close(row[: len(layers)], torch.from_numpy(layers), rtol=1e-5, atol=1e-5)
        assert not row[len(layers) :].any()


def test_evaluation_uses_present_and_averaged_weights() -> None:
    joint = JointElmo(load("tiny-random"), token_style="moses", unfreeze_every=0.0)
    joint.unfreeze(0)
    average = ExponentialMovingAverage(joint, decay=0.5)
    optimizer = torch.optim.SGD(joint.parameters(), lr=0.5)

    def evaluated() -> torch.Tensor:
        with torch.inference_mode():
            return joint.eval()(SENTENCES["moses"])

    def expected() -> torch.Tensor:
        fresh = JointElmo(joint.model, token_style="moses", unfreeze_every=0.0)
        return fresh(SENTENCES["moses"]).detach()

    seen = [evaluated()]
    for step in (1, 2):
        joint.train()(SENTENCES["moses"]).square().mean().backward()
        optimizer.step()
        average.update(step)
        with average.applied():
            torch.testing.assert_close(evaluated(), expected())
            seen.append(evaluated())
        torch.testing.assert_close(evaluated(), expected())
        seen.append(evaluated())
    assert joint.network._engine is not None
    for number, one in enumerate(seen):
        assert not any(torch.allclose(one, other, atol=1e-3) for other in seen[:number])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="an NVIDIA GPU is needed")
@pytest.mark.parametrize("epoch", [0.0, 2.0])  # the words frozen, and trained
def test_a_large_batch_takes_a_few_gigabytes_of_a_gpu(epoch: float) -> None:
    # cuDNN may convolve by Fourier transforms, with a workspace of ten times the responses and more.
    joint = JointElmo(load("elmore-en"), token_style="moses", unfreeze_every=1.0).to("cuda")
    sentences = [[f"{'x' * (number % 40)}{row}-{number}" for number in range(40)] for row in range(64)]
    joint.unfreeze(epoch)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_reserved()
    joint(sentences).sum().backward()
    with torch.inference_mode():
        joint(sentences)
    assert torch.cuda.max_memory_reserved() - before < 12 * 2**30
