"""What a command and its function in Python share has one name and one default; what commands share is one option."""

import inspect
from collections import defaultdict

import click
import pytest

from elmore import embed_file, perplexity, prepare, pretrain, substitutes, surprisal
from elmore.cli.app import COMMANDS, program
from elmore.embedding.options import InferenceOptions
from elmore.pretraining.recipe import PretrainingSettings
from elmore.tasks.core.registry import TASKS

FUNCTIONS = {
    "embed": (embed_file, InferenceOptions),
    "perplexity": (perplexity,),
    "surprisal": (surprisal,),
    "substitutes": (substitutes,),
    "prepare": (prepare,),
    "pretrain": (pretrain,),
}
# What a command asks in another way than Python.
ASKED_OTHERWISE = {
    ("embed", "state"),  # left open, because --layout allennlp implies another; the help shows Python's default
    ("embed", "device"),  # None, which the help shows as auto
    ("pretrain", "resume"),  # the folder of the run, where Python says whether
}
# Options of the same name that ask for different things.
DIFFERENT = {
    "--output": "a file, a folder or a run",
    "--vocabulary": "a model's own, or that of a new softmax",
    "--language": "of a text, of a model's card, or of a new corpus",
    "--tokenizer": "of a text, or of a model's card",
    "--lowercase": "of a model's card, or of a new corpus",
    "--input-format": "of any text, or of text to train on",
    "--tokenized": "a file, or one sentence on the command line",
    "--force": "what is replaced differs",
    "--json": "what is printed differs",
    "--seed": "of the choice of documents, or of a training",
    "--batch-size": "sentences at most, or rows that each carry a state",
    "--recipe": "of pre-training, or of a task",
    "--resume": "a run's folder, or whether to go on in the output's",
    "--seeds": "of the members of an ensemble, or of each variant that is compared",
    "--elmo": "the biLM to train with, or where that of a trained model lies",
    "--layers": "of vectors, or variants to compare",
    "--state": "the same choices; what carrying means is the command's",
}


def options(command: str) -> dict[str, click.Parameter]:
    return {one.name: one for one in program.get_command(None, command).params}


@pytest.mark.parametrize("command", FUNCTIONS)
def test_command_has_the_defaults_of_its_function(command):
    shared = 0
    for function in FUNCTIONS[command]:
        for name, parameter in inspect.signature(function).parameters.items():
            option = options(command).get(name)
            if option is None or (command, name) in ASKED_OTHERWISE or parameter.default is inspect.Parameter.empty:
                continue
            shared += 1
            given = option.get_default(click.Context(program))
            # Where there is none, click says so in its own way, which differs from version to version.
            assert (given if isinstance(given, str | float | int) else None) == parameter.default, (command, name)
    assert shared >= 2


def test_help_of_pretrain_shows_settings_of_a_new_run():
    shown = {name: option.show_default for name, option in options("pretrain").items() if name != "prepared"}
    for name in ("log_every", "checkpoint_every", "evaluate_every", "keep"):
        assert shown[name] == str(getattr(PretrainingSettings(), name))


def test_commands_share_their_options():
    declared = defaultdict(set)
    for command in COMMANDS:
        for option in options(command).values():
            for name in option.opts:
                if name.startswith("--"):
                    choices = tuple(getattr(option.type, "choices", ()))
                    declared[name].add((option.help, choices, tuple(option.opts)))
    assert {"--model", "--device", "--input-format", "--token-style", "--state"} <= declared.keys()
    assert {name for name, ways in declared.items() if len(ways) > 1} <= DIFFERENT.keys()
    assert len({tuple(choices) for _, choices, _ in declared["--state"]}) == 1


@pytest.mark.parametrize("command", ["train", "compare"])
def test_help_names_every_task(command: str) -> None:
    command = program.get_command(click.Context(program), command)
    assert command is not None
    (task,) = (parameter for parameter in command.params if parameter.name == "task")
    names, _, _ = task.help.partition(", or module:OBJECT")
    assert sorted(names.split(", ")) == sorted(TASKS)
