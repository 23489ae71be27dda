# `make demo` on a fresh machine sets everything up and shows the main job; `make help` lists the rest.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-kernels check format clean

help:  ## what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-9s %s\n", $$1, $$2}'

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: .venv/ready  ## embed a few sentences and show what comes out
	@$(BIN)/python examples/demo.py

test: .venv/ready  ## the tests, examples in docstrings and README included
	$(BIN)/python -m pytest --quiet

test-all: .venv/ready  ## the slow tests too
	$(BIN)/python -m pytest --quiet -m 'slow or not slow'

test-kernels: .venv/ready  ## the Triton kernels, without a GPU (fetches 290 MB)
	$(BIN)/pip install --quiet --disable-pip-version-check triton
	TRITON_INTERPRET=1 $(BIN)/python -m pytest --quiet tests/kernels tests/training

check: .venv/ready  ## layout, lint, types, and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/ready  ## put the layout right
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## forget the environment and all caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
