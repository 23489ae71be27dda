"""The training loop, its events and run folders, for pre-training and tasks; it depends on neither."""
