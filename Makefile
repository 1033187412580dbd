PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
HEAVY := .venv-heavy
FLOOR := 94
LATER := tests/golden tests/regression tests/fuzz tests/project evaluation/tests
define COVERAGE
import json, sys
percent = json.load(open(".coverage.json"))["summary"]["percent_covered"]
print(f"coverage by the uncompiled tests: {percent:.1f} % of lines, $(FLOOR) % wanted")
sys.exit(percent < $(FLOOR))
endef
export COVERAGE
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

.PHONY: demo test lint pytest pytest-first pytest-later pytest-uncompiled test-browser test-heavy wheel test-wheel docs bench results clean

demo: $(VENV)/installed
	$(BIN)/anytimebp demo

# Two at a time. What each prints comes in one piece when it has ended. The compiled tests take longest, so that whoever is
# ready first takes on the rest of them; by then the kernels are on disk.
# Lines are counted in the uncompiled tests alone: those of compiled kernels cannot be.
test: $(VENV)/ready
	@echo "lint and tests, compiled and uncompiled side by side: ten to twenty minutes"
	@$(MAKE) --no-print-directory --jobs=2 $(SYNC) pytest-first pytest-uncompiled lint pytest-later
	@$(BIN)/python -c "$$COVERAGE"

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

pytest: pytest-first pytest-later

pytest-first: $(VENV)/ready
	$(BIN)/python -m pytest -m "not browser and not heavy" tests $(addprefix --ignore=,$(LATER))

pytest-later: $(VENV)/ready
	$(BIN)/python -m pytest -m "not browser and not heavy" $(LATER)

# The same kernels as plain Python: coverage, bounds and a check that compiling changes nothing.
pytest-uncompiled: $(VENV)/ready
	NUMBA_DISABLE_JIT=1 $(BIN)/slipcover --json --out .coverage.json -m pytest -W ignore::pytest.PytestAssertRewriteWarning -m "not compiled and not browser and not heavy"

# The report of a run, and the page of `anytimebp serve`, in a real browser, which is installed if need be. Uncompiled: the models are tiny.
test-browser: $(VENV)/browser-ready
	sh tests/browser/install_chromium.sh
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -m browser tests/browser

# Against packages that are large and slow to install, in an environment of its own; by hand, not in .ci/run.
test-heavy: $(HEAVY)/ready
	$(HEAVY)/bin/python -m pytest tests/heavy

# A wheel with compiled kernels for x86-64-v3, in dist/; for the Python and the Numba of this environment.
wheel: $(VENV)/installed
	rm -rf build/compiled
	$(BIN)/anytimebp warmup --into build/compiled
	ANYTIMEBP_COMPILED=$(CURDIR)/build/compiled $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

# Installs that wheel in an environment of its own, and sees that `bp` and the default method compile nothing; by hand.
test-wheel: wheel
	sh tests/heavy/try_wheel.sh $(PYTHON)

# The documentation as pages in site/, which open without a network. A link that leads nowhere is an error.
docs: $(VENV)/docs-ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "site/index.html is the documentation"

bench: $(VENV)/ready
	$(BIN)/python evaluation/benchmarks/run.py

# evaluation/RESULTS.md and its figures from the raw results beside it; what is missing there is measured, which takes an
# hour. The real task is measured by `anytimebp reproduce nerel --data FOLDER --out evaluation`.
results: $(VENV)/ready
	$(BIN)/anytimebp reproduce all --out evaluation

# The library alone, which is all that the demo needs.
$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/ready: $(VENV)/installed evaluation/pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]" --editable ./evaluation
	touch $@

$(VENV)/browser-ready: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[browser]"
	touch $@

$(VENV)/docs-ready: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	touch $@

$(HEAVY)/ready: pyproject.toml
	$(PYTHON) -m venv $(HEAVY)
	$(HEAVY)/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[heavy]"
	touch $@

clean:
	rm -rf $(VENV) $(HEAVY) .mypy_cache .ruff_cache .pytest_cache .hypothesis .numba_cache .coverage.json site
