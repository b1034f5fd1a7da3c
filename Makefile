# `make help` lists what can be made.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.set-up
ARCHIVE := $(VENV)/spark.jsa

# Whatever the shell says, Python keeps what it has compiled: the tests start hundreds of processes that import the same files.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo quick test test-long test-kafka hunt lint bench clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) $(ARCHIVE) ## put Pellucid and its tools into .venv (versions of requirements.lock), and a Java for Spark

# PIP_USE_PEP517: Debian 12's pip would build pyspark, which has no wheel, in a way that it warns of.
$(STAMP): requirements.lock pyproject.toml
	@command -v $(PYTHON) > /dev/null || { echo "Python is missing. On Debian or Ubuntu: sudo apt-get install python3 python3-venv" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Pellucid needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
		echo "On Debian or Ubuntu: sudo apt-get install python3.11 python3.11-venv, then: make setup PYTHON=python3.11" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { \
		echo "Python's venv is missing. On Debian or Ubuntu: sudo apt-get install python3-venv" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	PIP_USE_PEP517=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m pellucid.spark.java --install || echo "Without a Java everything works except Spark; its tests will be skipped." >&2
	@$(BIN)/python -m tests.sinks.postgres --install || true
	@$(BIN)/python -m tests.export.nusmv --install || true
	@touch $(STAMP)

demo: $(STAMP) ## see a pipeline drawn, run, checked, and run on Spark
	@$(BIN)/python examples/demo.py

# Spark's classes in a form that Java maps instead of reading them from jars: the tests start many Javas.
$(ARCHIVE): $(STAMP)
	@$(BIN)/python -m tests.spark.quick_jvm || echo "Without the archive of Spark's classes the tests take longer." >&2

quick: $(STAMP) ## what to run before a commit: under 90 seconds on two cores, without a Java
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not (spark or crash or long or kafka or slow)"

# Beside the linters: what pytest makes of each test module is kept, and not made by three processes at the same time.
.PHONY: collected
collected: $(STAMP)
	@$(BIN)/python -m pytest -q --collect-only > $(VENV)/collected || { tail -n 50 $(VENV)/collected >&2; exit 1; }

# Three at a time on two cores: much of a test's time is waiting for a Java, a disk or a process that was killed.
test: $(STAMP) ## everything that must hold before a change goes in
	@$(MAKE) --no-print-directory -j2 lint $(ARCHIVE) collected
	@$(BIN)/python -m compileall -q -j 2 src tests
	$(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder --durations=20 -rs

test-long: $(STAMP) $(ARCHIVE) ## the tests that take minutes or gigabytes, 500 signals, and ten minutes of make hunt
	$(BIN)/python -m pytest -q -m long
	$(BIN)/python -m tests.judge.signals --count 500
	@$(MAKE) --no-print-directory hunt MINUTES=10

MINUTES ?= 30
hunt: $(STAMP) $(ARCHIVE) ## the random tests with new seeds, round after round: SEED=… (else by chance), MINUTES=30
	@$(BIN)/python -m tests.hunt --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),'$(ONLY)')

test-kafka: $(STAMP) ## the tests against a real Kafka broker, which is brought from Maven Central
	$(BIN)/python -m pytest -q -m kafka

lint: $(STAMP) ## ruff (habits and form), mypy, and the budget of each room
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/python -m tests.budget

bench: $(STAMP) ## measure the local engine, Spark and zones beside their peers
	$(BIN)/python bench/local.py
	$(BIN)/python bench/spark.py
	$(BIN)/python bench/tables.py
	$(BIN)/python bench/time.py
	$(BIN)/python bench/capacity.py

clean: ## remove everything that was made
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples bench -name __pycache__ -type d -prune -exec rm -rf {} +
