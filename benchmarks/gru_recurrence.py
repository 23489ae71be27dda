"""How fast a layer of gated recurrent units in both directions is, as a reader of SQuAD has some, by each of its forms.

    python benchmarks/gru_recurrence.py [--device cuda] [--rounds 20] [--sentences 45] [--tokens 155 400]

The forms are the reference, differentiated by autograd; torch's own, which on a GPU is cuDNN's; and on a GPU the fused
one, a kernel for all steps. They take turns over the same sentences, of up to so many tokens and down to half of that,
after a round that does not count; forth alone, as in predicting, and forth and back. First each is held against the
reference, for which cuDNN may not round to TF32; when it is timed it may, as in a training. Prints a table, the
milliseconds beside those that the processor was busy with, which is what launches cost, and appends a JSON line to
results/gru_recurrence.jsonl.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from circumstances import circumstances
from torch import Tensor

from elmore.tasks.modules import rnn
from elmore.tasks.modules.gru_recurrence import fused_recurrence, fused_recurrence_runs_on, reference_recurrence
from elmore.tasks.modules.rnn import BiGru

RESULTS = Path(__file__).resolve().parent / "results" / "gru_recurrence.jsonl"
INPUT_DIM, HIDDEN = 180, 90  # as the layers of the recipe that read what others gave


class Milliseconds(NamedTuple):
    """Of one round."""

    forth: float
    forth_and_back: float
    processor: float  # the part of forth and back that the processor was busy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--sentences", type=int, default=45)
    parser.add_argument("--tokens", type=int, nargs="+", default=[155, 400])
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    torch.manual_seed(1)
    encoder = BiGru(INPUT_DIM, HIDDEN).to(device)
    found = {}
    for tokens in arguments.tokens:
        lengths = torch.linspace(tokens, tokens / 2, arguments.sentences).round().int().tolist()
        x = torch.randn(arguments.sentences, tokens, INPUT_DIM, device=device)
        hold_against_reference(encoder, x, lengths)
        found[tokens] = measured(encoder, x, lengths, rounds=arguments.rounds)
    print("tokens\tform\tforth, ms\tforth and back, ms\tof the processor, ms")
    for tokens, forms in found.items():
        for name, one in forms.items():
            print(tokens, name, *one, sep="\t")
    result = {
        "benchmark": "gru_recurrence",
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        **{part: getattr(arguments, part) for part in ("rounds", "sentences")},
        "milliseconds": {tokens: {name: one._asdict() for name, one in of.items()} for tokens, of in found.items()},
        **circumstances(),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(result) + "\n")


def forms_on(device: torch.device) -> dict[str, Callable[..., Tensor] | None]:
    """The recurrences that can be run there; none is torch's own."""
    forms: dict[str, Callable[..., Tensor] | None] = {"reference": reference_recurrence, "torch": None}
    if fused_recurrence_runs_on(device, torch.float32, HIDDEN):
        forms["fused"] = fused_recurrence
    return forms


def use_form(form: Callable[..., Tensor] | None) -> None:
    rnn.fused_recurrence_runs_on = lambda *_: form is not None
    rnn.fused_recurrence = form or fused_recurrence


def hold_against_reference(encoder: BiGru, x: Tensor, lengths: list[int]) -> None:
    allowed = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    results = {}
    for name, form in forms_on(x.device).items():
        use_form(form)
        results[name] = pass_through(encoder, x, lengths)
    torch.backends.cudnn.allow_tf32 = allowed
    for name, several in results.items():
        for one, other in zip(several, results["reference"], strict=True):
            torch.testing.assert_close(
                one,
                other,
                rtol=1e-4,
                atol=1e-4 * float(other.abs().max()),
                msg=lambda text, name=name: f"{name}: {text}",
            )


def pass_through(encoder: BiGru, x: Tensor, lengths: list[int]) -> list[Tensor]:
    """States, and the gradients of inputs and of all weights."""
    leaf = x.clone().requires_grad_()
    states = encoder(leaf, lengths)
    return [states.detach(), *torch.autograd.grad(states.square().mean(), [leaf, *encoder.parameters()])]


def measured(encoder: BiGru, x: Tensor, lengths: list[int], *, rounds: int) -> dict[str, Milliseconds]:
    """The medians of every form."""
    forms = forms_on(x.device)
    found: dict[str, list[Milliseconds]] = {name: [] for name in forms}
    for number in range(rounds + 1):
        for name, form in forms.items():
            use_form(form)
            with torch.no_grad():
                forth, _ = milliseconds(lambda: encoder(x, lengths), x.device)
            both, processor = milliseconds(lambda: pass_through(encoder, x, lengths), x.device)
            if number:
                found[name].append(Milliseconds(forth, both, processor))
    return {
        name: Milliseconds(*(round(median(column), 3) for column in zip(*several, strict=True)))
        for name, several in found.items()
    }


def milliseconds(work: Callable[[], object], device: torch.device) -> tuple[float, float]:
    """By the clock, until the device is done; and those of the processor until all was launched."""
    wait_for(device)
    wall, processor = time.perf_counter(), time.process_time()
    work()
    launched = time.process_time() - processor
    wait_for(device)
    return 1000 * (time.perf_counter() - wall), 1000 * launched


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
