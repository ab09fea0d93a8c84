# RocketFlow. `make help` lists the targets.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.rocketflow-setup
# a test may take its time then; a look at where it is, after five minutes, can end the process that it looks at
LONG := --timeout 3600 -o faulthandler_timeout=0

# a part of the fault matrix: kills, power loss, torn, forged and silent answers
PURE_ROWS := kills.py power_loss.py torn_tails.py torn_commits.py forged_records.py forged_parts.py silent_answers.py

.PHONY: help setup run run-network test test-pure test-changed test-full test-faults test-planted test-interop fuzz bench reference docs release airflow check clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) ## make .venv with everything that is needed

# a line that refuses the Python of a set-up, before pip is asked; uv chooses one that pyproject.toml allows
REFUSED = $(shell if [ -x $(BIN)/python ]; then $(BIN)/python tests/project/python_versions.py $(VENV); \
  elif ! command -v uv >/dev/null; then $(PYTHON) tests/project/python_versions.py; fi 2>/dev/null \
  || echo "$(PYTHON) does not run: make setup PYTHON=PATH of a Python that pyproject.toml requires")

KERNEL = $(wildcard hatch_build.py store/rocketflow_store/kernel/_kernel.pyx store/rocketflow_store/kernel/*.pxi store/rocketflow_store/kernel/*.h)

$(STAMP): requirements.lock pyproject.toml $(KERNEL)
	$(if $(REFUSED),$(error $(REFUSED)))
	@echo "setting up $(VENV) ..."
	@if command -v uv >/dev/null 2>&1; then \
	  [ -x $(BIN)/python ] || uv venv -q --seed $(VENV); \
	  uv pip install -q --python $(BIN)/python --require-hashes -r requirements.lock; \
	else \
	  [ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV); \
	  $(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock; \
	fi
	@ROCKETFLOW_NO_KERNEL=1 ROCKETFLOW_REQUIRE_KERNEL= $(BIN)/python -m pip install -q --disable-pip-version-check \
	  --no-deps --no-build-isolation -e .
	@$(BIN)/python hatch_build.py
	@touch $@
	@echo "$(VENV) is ready"

run: $(STAMP) ## append real flights, stream them through SQL, prove the result
	@$(BIN)/rocketflow demo

run-network: $(STAMP) ## the same over the network: broker and Spark job are killed once on the way
	@$(BIN)/rocketflow demo --network

test: $(STAMP) ## run the test suite (on two cores with a third process: they often wait for brokers and JVMs)
	@$(BIN)/python -m pytest -n 3

test-pure: $(STAMP) ## run the tests of what the compiled kernel does, without the kernel
	@ROCKETFLOW_NO_KERNEL=1 $(BIN)/python -m pytest -n 3 tests/store/append tests/store/reading tests/store/records \
	  tests/store/views tests/store/commits tests/rocketflow/broker $(addprefix tests/reliability/test_,$(PURE_ROWS)) \
	  tests/reliability/network/test_broker_kills.py tests/reliability/network/test_bad_frames.py

test-changed: $(STAMP) ## run the checks, and for 3 minutes the tests nearest to what differs from BASE (default: main)
	@began=$$(date +%s); $(MAKE) -s check && $(BIN)/python -m tests.project.changed --began $$began $(BASE)

test-full: $(STAMP) ## run the test suite with the full counts
	@RF_FULL=1 $(BIN)/python -m pytest -n 3 $(LONG)

test-faults: $(STAMP) ## run the reliability rows with the fast counts (kills, power loss, full disk, damage ...)
	@RF_FAULTS=1 $(BIN)/python -m pytest -n 3 $(LONG) tests/reliability

test-planted: $(STAMP) ## put known bugs into copies of the tree; some test has to notice each
	@$(BIN)/python -m tests.planted

test-interop: $(STAMP) ## run RocketMQ's own clients, brokers and tools against RocketFlow; write the table of results
	@$(BIN)/python -m tests.apache.interop

fuzz: $(STAMP) ## coverage-guided fuzzing of every decoder
	@$(BIN)/python -m tests.fuzz

bench: $(STAMP) ## run the benchmarks (JSON lines under tests/bench/results)
	@$(BIN)/python -m tests.bench

reference: $(STAMP) ## write the pages of the reference (settings, options, commands, events, JSON output) from the code
	@$(BIN)/python -m rocketflow.cli.write_reference

docs: $(STAMP) ## make a site of all pages in build/docs; broken links fail
	@$(BIN)/python -m tests.project.site

release: $(STAMP) ## make wheel, source archive, SBOM and checksums of the last commit in dist
	@$(BIN)/python -m tests.project.release

airflow: $(STAMP) ## a standalone Airflow with the DAGs and a demo store on 127.0.0.1, until Ctrl-C
	@$(BIN)/python -m tests.rocketflow.airflow

check: $(STAMP) ## formatter, linter, type checker, import rules, reference pages, words
	@$(BIN)/ruff format --check -q . && echo "format ok"
	@$(BIN)/ruff check -q . && echo "lint ok"
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m rocketflow.cli.write_reference --check
	@$(BIN)/python -m tests.project.language
	@$(BIN)/python tests/project/python_versions.py --dependencies

clean: ## remove what the other targets made
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist tests/bench/results tests/reliability.json
