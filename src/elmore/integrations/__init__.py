"""Elmore in other tools: a folder for each, and each needs an extra of its own."""
