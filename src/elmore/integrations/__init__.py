"""Integrations with other tools: a folder and an extra for each."""
