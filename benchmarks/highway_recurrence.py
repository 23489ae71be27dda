"""How fast the recurrence of the highway LSTM is: all layers of semantic roles, forth and back, by each of its forms.

    python benchmarks/highway_recurrence.py [--device cuda] [--rounds 20] [--sentences 80] [--tokens 30]

The forms are the reference, differentiated by autograd; the backward pass written out in torch; and on a GPU the same
in Triton, a kernel a step. They take turns over the same sentences, of up to `--tokens` words, after a round that does
not count. First each is held against the reference. Prints a table, the milliseconds of a round beside those that the
processor was busy with, which is what launches cost, and appends a JSON line to results/highway_recurrence.jsonl.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from circumstances import circumstances
from torch import Tensor

from elmore.nn.kernels import triton_runs_on
from elmore.tasks.srl import highway_recurrence, model
from elmore.tasks.srl.highway_recurrence import reference_recurrence
from elmore.tasks.srl.model import AlternatingHighwayLstm

RESULTS = Path(__file__).resolve().parent / "results" / "highway_recurrence.jsonl"
INPUT_DIM, HIDDEN, LAYERS = 712, 300, 8  # as in the recipe, with word vectors of 100 and elmore-en


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--sentences", type=int, default=80)
    parser.add_argument("--tokens", type=int, default=30)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    torch.manual_seed(1)
    encoder = AlternatingHighwayLstm(INPUT_DIM, HIDDEN, layers=LAYERS).to(device)
    lengths = torch.linspace(arguments.tokens, arguments.tokens / 2, arguments.sentences).round().int().tolist()
    x = torch.randn(arguments.sentences, arguments.tokens, INPUT_DIM, device=device)
    forms = forms_on(device)
    expected = pass_through(encoder, x, lengths, forms["reference"])
    for name, form in forms.items():
        for one, other in zip(pass_through(encoder, x, lengths, form), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4 * float(other.abs().max()), msg=name)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in forms}
    for number in range(arguments.rounds + 1):
        for name, form in forms.items():
            wait_for(device)
            wall, processor = time.perf_counter(), time.process_time()
            pass_through(encoder, x, lengths, form)
            launched = time.process_time() - processor
            wait_for(device)
            if number:
                found[name].append((1000 * (time.perf_counter() - wall), 1000 * launched))
    result: dict[str, Any] = {
        "benchmark": "highway_recurrence",
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        **{part: getattr(arguments, part) for part in ("rounds", "sentences", "tokens")},
        "milliseconds": {name: round(median(wall for wall, _ in several), 2) for name, several in found.items()},
        "processor_milliseconds": {name: round(median(own for _, own in of), 2) for name, of in found.items()},
        **circumstances(),
    }
    print("form\tms\tof the processor, ms")
    for name in forms:
        print(f"{name}\t{result['milliseconds'][name]}\t{result['processor_milliseconds'][name]}")
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(result) + "\n")


def forms_on(device: torch.device) -> dict[str, Callable[..., Tensor]]:
    """The recurrences that can be run there."""
    forms: dict[str, Callable[..., Tensor]] = {
        "reference": reference_recurrence,
        "torch": applied(highway_recurrence.TorchRecurrence),
    }
    if triton_runs_on(device, torch.float32):
        from elmore.tasks.srl.triton_highway_recurrence import TritonRecurrence

        forms["triton"] = applied(TritonRecurrence)
    return forms


def applied(function: type[torch.autograd.Function]) -> Callable[..., Tensor]:
    return lambda *inputs: function.apply(*inputs[:4], tuple(inputs[4]))


def pass_through(
    encoder: AlternatingHighwayLstm, x: Tensor, lengths: list[int], form: Callable[..., Tensor]
) -> list[Tensor]:
    """Outputs, and the gradients of all weights."""
    model.highway_recurrence = form
    outputs = encoder(x, lengths)
    return [outputs.detach(), *torch.autograd.grad(outputs.square().mean(), list(encoder.parameters()))]


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
