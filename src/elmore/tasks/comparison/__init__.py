"""Comparison of variants of a recipe: plan, jobs, processes, store, table and plots."""
