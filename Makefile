# `make demo` on a fresh machine sets everything up and shows the main job; `make help` lists the rest.
# Every Python has an environment of its own: `make test PYTHON=python3.13` works in .venv-python3.13.
PYTHON ?= python3
VENV := $(if $(filter python3,$(PYTHON)),.venv,.venv-$(notdir $(PYTHON)))
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-kernels test-native wheels check format clean

help:  ## what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-12s %s\n", $$1, $$2}'

# With a C++ compiler this builds the native kernels too; without one the package works without them.
NATIVE := $(wildcard src/elmore/engine/native/* src/elmore/nn/native/*)
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

# The package with what inference needs.
$(VENV)/core: pyproject.toml setup.py constraints.txt $(NATIVE)
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	@touch $@

# In addition torch, the other extras and the development tools. By name, so that the package is not built again.
$(VENV)/ready: $(VENV)/core
	$(PIP) 'elmore[dev]'
	@touch $@

demo: $(VENV)/core  ## embed a few sentences and show what comes out
	@$(BIN)/python examples/demo.py

test: $(VENV)/ready  ## the tests, examples in docstrings and README included
	$(BIN)/python -m pytest --quiet

test-all: $(VENV)/ready  ## the slow tests too, and random examples that are new each time
	$(BIN)/python -m pytest --quiet -m 'slow or not slow' --hypothesis-profile search

$(VENV)/triton: $(VENV)/ready
	$(BIN)/pip install --quiet --disable-pip-version-check triton
	@touch $@

test-kernels: $(VENV)/triton  ## the Triton kernels, interpreted, so without a GPU (fetches Triton once)
	TRITON_INTERPRET=1 $(BIN)/python -m pytest --quiet -m triton tests/nn tests/pretraining tests/tasks/modules tests/tasks/srl

NATIVE_PARTS ?= plain asan tsan standard arm python-asan python-tsan

test-native: $(VENV)/ready  ## the native kernels: C++ tests, sanitizers, NEON in an emulator (needs g++)
	PYTHON=$(BIN)/python tests/engine/native/run.sh $(NATIVE_PARTS)

wheels: $(VENV)/ready  ## one with the native kernels for this platform, and one without them for all
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .
	ELMORE_NATIVE=0 $(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .

SCRIPTS := benchmarks examples $(filter %/,$(wildcard experiments/*/))

check: $(VENV)/ready  ## layout, lint, types, and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	for folder in $(SCRIPTS); do $(BIN)/mypy --config-file mypy-scripts.ini $$folder/*.py || exit 1; done
	$(BIN)/lint-imports

format: $(VENV)/ready  ## put the layout right
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## forget the environments and all caches
	rm -rf build dist src/elmore/engine/_native.so .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
