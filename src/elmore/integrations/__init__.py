"""Elmore in other tools: one file for each, and each needs an extra of its own."""
