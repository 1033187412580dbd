PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint pytest pytest-uncompiled bench clean

demo: $(VENV)/ready
	$(BIN)/anytimebp demo

test: lint pytest pytest-uncompiled

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

pytest: $(VENV)/ready
	$(BIN)/python -m pytest

# The same kernels as plain Python: coverage, bounds and a check that compiling changes nothing.
pytest-uncompiled: $(VENV)/ready
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -m "not compiled"

bench: $(VENV)/ready
	$(BIN)/python benchmarks/run.py

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .numba_cache
