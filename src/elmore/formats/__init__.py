"""One file for each format; each translates between its files and a `Checkpoint`."""
