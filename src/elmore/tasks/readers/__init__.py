"""One file for each format that task data come in. They give plain records; a malformed line is named."""
