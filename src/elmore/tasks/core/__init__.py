"""Frame of all tasks: the `Task` record, its recipe, training, and the trained model."""
