"""The common half of every training: the run, its folder, checkpoints, evaluations, rates, logs, several processes."""
