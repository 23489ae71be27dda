"""How far a run trains before it pauses, and what its first steps say about the rest.

The real steps are the measurement. The first of them pay for setting up, and on a GPU for capturing graphs, so a run
pauses after 1, 2, 4, … steps; the last of these stretches is believed.
"""

SECONDS_BETWEEN_PAUSES = 5.0  # about how long a run trains before it looks whether it is to stop
# When a stretch says enough about those to come: it was long, or there were a few of them for some time.
ENOUGH_STEPS, ENOUGH_STRETCHES, ENOUGH_SECONDS = 32, 3, 3.0


class StepTimer:
    """The speed of one phase of a training.

    >>> timer = StepTimer()
    >>> timer.steps_to_next_pause()
    1
    >>> timer.add(steps=1, seconds=0.5)
    >>> timer.steps_to_next_pause(), timer.seconds_per_step
    (2, 0.5)
    """

    def __init__(self) -> None:
        self.seconds_per_step = 0.0
        self._longest = 0  # steps of the longest stretch
        self._stretches, self._seconds = 0, 0.0

    def steps_to_next_pause(self) -> int:
        """How many steps to take before the next pause."""
        if not self._stretches:
            return 1
        most = SECONDS_BETWEEN_PAUSES / max(self.seconds_per_step, 1e-9)
        return max(int(min(2 * self._longest, most)), 1)

    def add(self, *, steps: int, seconds: float) -> None:
        """Count a stretch."""
        self._longest, self.seconds_per_step = max(self._longest, steps), seconds / steps
        self._stretches, self._seconds = self._stretches + 1, self._seconds + seconds

    @property
    def can_estimate(self) -> bool:
        """Whether an estimate can be made."""
        for_some_time = self._stretches >= ENOUGH_STRETCHES and self._seconds > ENOUGH_SECONDS
        return self._longest >= ENOUGH_STEPS or for_some_time
