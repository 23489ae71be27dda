"""All tasks, by name. A further one is a file of its own and a line here."""

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
    """The task of this name.

    >>> find_task("ner").summary
    'names of persons, places and the like'
    """
    if name not in TASKS:
        raise InputError(f"there is no task {name!r}; there are {', '.join(TASKS)}")
    return TASKS[name]
