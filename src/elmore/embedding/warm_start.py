"""A warm start state: what the network remembers, on average, after a sentence of a given text.

A network that starts from zeros has never seen such a state in training, and reads the first words of a sentence a
little worse for it. AllenNLP and bilm-tf carry the state from sentence to sentence instead, and so give the same
sentence other vectors each time. A fixed warm state has both: a start that training knew, and the same vectors every
time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from elmore.errors import InputError
from elmore.model import Model
from elmore.network.state import State


def with_warm_start(model: Model, sentences: Iterable[Sequence[str]], *, text_name: str) -> Model:
    """The model with a start state of its own: the mean of its states after each sentence, read one after another."""
    state = State.zeros(model.config).to(model.device)
    # Added up on the CPU, because not every device has float64.
    h, c = (torch.zeros(part.shape, dtype=torch.float64) for part in (state.h, state.c))
    count = 0
    with torch.inference_mode():
        for words in sentences:
            _, state = model.network(model.batch([words]), state)
            h, c, count = h + state.h.cpu(), c + state.c.cpu(), count + 1
    if count == 0:
        raise InputError(f"{text_name} holds no sentence to warm up on")
    mean = State((h / count).float().clone(), (c / count).float().clone()).to(model.device)
    made = f"the mean state after each of {count} sentences of {text_name}"
    return replace(model, start=mean, card=replace(model.card, start_state="warm", start_state_from=made))
