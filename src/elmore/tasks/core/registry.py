"""All tasks, by name. A new task is a file or a package, and a line here."""

from importlib import import_module
from typing import Any

from elmore.errors import InputError
from elmore.tasks.classification.task import CLASSIFY, SENTIMENT
from elmore.tasks.core.task import Task
from elmore.tasks.coref.task import COREF
from elmore.tasks.entailment import ENTAILMENT
from elmore.tasks.senses.wic import WIC
from elmore.tasks.senses.wsd import WSD
from elmore.tasks.squad.task import SQUAD
from elmore.tasks.srl.task import SRL
from elmore.tasks.tagging.ner import NER
from elmore.tasks.tagging.pos import POS

TASKS: dict[str, Task[Any, Any]] = {
    task.name: task for task in (NER, POS, SENTIMENT, CLASSIFY, WSD, WIC, ENTAILMENT, SQUAD, SRL, COREF)
}


def find_task(name: str) -> Task[Any, Any]:
    """The task of this name, or the `Task` object of a module outside of Elmore, as `module:OBJECT`.

    >>> find_task("ner").summary
    'names of persons, places and the like'
    """
    module, separator, attribute = name.partition(":")
    if separator:
        return _imported_task(module, attribute)
    if name not in TASKS:
        raise InputError(f"there is no task {name!r}; choose one of {', '.join(TASKS)}, or give module:OBJECT")
    return TASKS[name]


def _imported_task(module: str, attribute: str) -> Task[Any, Any]:
    try:
        task = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise InputError(
            f"the module {module!r} of the task cannot be imported ({error}); add its folder to PYTHONPATH"
        ) from None
    except AttributeError:
        raise InputError(f"the module {module!r} has no object {attribute!r}; name its Task object") from None
    if not isinstance(task, Task):
        raise InputError(f"{module}:{attribute} is a {type(task).__name__}, not a Task object")
    return task
