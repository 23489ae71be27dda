# `make demo` on a fresh machine sets everything up and shows the main job; `make help` lists the rest.
# Every Python has an environment of its own: `make test PYTHON=python3.13` works in .venv-python3.13.
PYTHON ?= python3
VENV := $(if $(filter python3,$(PYTHON)),.venv,.venv-$(notdir $(PYTHON)))
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-kernels check format clean

help:  ## what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-9s %s\n", $$1, $$2}'

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(VENV)/ready  ## embed a few sentences and show what comes out
	@$(BIN)/python examples/demo.py

test: $(VENV)/ready  ## the tests, examples in docstrings and README included
	$(BIN)/python -m pytest --quiet

test-all: $(VENV)/ready  ## the slow tests too
	$(BIN)/python -m pytest --quiet -m 'slow or not slow'

$(VENV)/triton: $(VENV)/ready
	$(BIN)/pip install --quiet --disable-pip-version-check triton
	@touch $@

test-kernels: $(VENV)/triton  ## the Triton kernels, interpreted, so without a GPU (fetches Triton once)
	TRITON_INTERPRET=1 $(BIN)/python -m pytest --quiet -m triton tests/kernels tests/training

check: $(VENV)/ready  ## layout, lint, types, and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/ready  ## put the layout right
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## forget the environments and all caches
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
