"""What every training loop shares: checkpoints, rates, logs."""
