"""All tasks, by name. A further one is a file of its own and a line here."""

from typing import Any

from elmore.errors import InputError
from elmore.tasks.classify import CLASSIFY
from elmore.tasks.coref import COREF
from elmore.tasks.entailment import ENTAILMENT
from elmore.tasks.ner import NER
from elmore.tasks.pos import POS
from elmore.tasks.sentiment import SENTIMENT
from elmore.tasks.squad import SQUAD
from elmore.tasks.srl import SRL
from elmore.tasks.task import Task
from elmore.tasks.wic import WIC
from elmore.tasks.wsd import WSD

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
