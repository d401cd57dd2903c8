# make reproduce    the whole reproduction, from model and prompts to the report  (SCALE=smoke|laptop|... chooses the size)
# make test         everything a change must pass: lint, then the tests
# make lint         style, types, workflow format, notebooks in step with their sources
# make lab          JupyterLab on the notebooks
# make report       the self-contained HTML report of what has been computed
# make env        only the environment
# make clean        remove the environment and all caches (results stay)
#
# Every target first makes .venv from requirements.lock, and again when the lock or pyproject.toml changed. An activated
# conda environment (environment.yml) is used instead; conda's base environment is not.

SHELL := bash
.NOTPARALLEL:
unexport PYTHONPATH

SCALE ?=
PYTHON ?= python3
SNAKEMAKE_ARGS ?=
# Seconds until one test counts as hanging.
TEST_TIMEOUT ?= 300
TESTS ?= tests

ifneq ($(filter-out base,$(CONDA_DEFAULT_ENV)),)
  BIN := $(CONDA_PREFIX)/bin
  READY := conda-environment
else
  BIN := $(CURDIR)/.venv/bin
  # Named by content, not by date: a fresh clone, a moved folder and a switched branch are all seen.
  READY := .venv/ready-$(shell (cat requirements.lock pyproject.toml; echo '$(CURDIR)') | cksum | cut -d ' ' -f 1)
endif
export PATH := $(BIN):$(PATH)
SNAKEMAKE := $(BIN)/snakemake --cores all $(if $(SCALE),--config scale=$(SCALE)) $(SNAKEMAKE_ARGS)

.PHONY: reproduce test lint lab report env clean help conda-environment

help:
	@sed -n 's/^# make/make/p' Makefile

reproduce: $(READY)
	$(SNAKEMAKE)

test: lint
	$(BIN)/python -m pytest $(TESTS) -m "not slow and not gpu" --timeout=$(TEST_TIMEOUT)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check --compact-diff Snakefile workflow
	$(BIN)/python -m pytest tests/unit/test_house_style.py tests/unit/test_lock.py

lab: $(READY)
	$(BIN)/jupyter lab --notebook-dir=notebooks

report: $(READY)
	$(SNAKEMAKE) --report results/report.html

env: $(READY)

clean:
	rm -rf .venv build dist ./*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.snakemake/*' -prune -exec rm -rf {} +
	@echo "Results and downloads were kept; 'git clean -ndX results .cache' lists them."

.venv/ready-%:
	@for python in "$(PYTHON)" python3 python3.13 python3.12 python3.11; do \
	  if "$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then found="$$python"; break; fi; \
	done; \
	if [ -z "$${found:-}" ]; then \
	  echo "error: angelspec needs Python 3.11, 3.12 or 3.13; $(PYTHON) is $$($(PYTHON) --version 2>&1 || true)." \
	       "Install one of them, or name it: make test PYTHON=/path/to/python3.12" >&2; exit 1; \
	fi; \
	if ! .venv/bin/python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then \
	  echo "Making .venv with $$("$$found" --version)"; "$$found" -m venv --clear .venv; \
	fi
	@rm -f .venv/ready-*
	@set -o pipefail; echo "Installing $$(grep -c == requirements.lock) packages from requirements.lock (some minutes)"; \
	.venv/bin/python -m pip install --disable-pip-version-check --progress-bar off -r requirements.lock | awk ' \
	  /^Collecting/ { if (++n % 40 == 0) { print "  " n " packages found"; fflush() } } \
	  /^Building|^Downloading.*(MB|GB)/ { if ($$0 ~ /[0-9][0-9][0-9]\.[0-9] MB|GB/) { print "  " $$1 " " $$2 " " $$3 " " $$4; fflush() } } \
	  /^Installing collected/ { print "  unpacking"; fflush() }'
	@.venv/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@touch $@; echo "The environment .venv is ready."

conda-environment:
	@$(BIN)/python -m angelspec.environment requirements.lock || { \
	  echo "error: the activated conda environment '$(CONDA_DEFAULT_ENV)' does not hold the pinned packages. Run" \
	       "'conda env update -f environment.yml', or 'conda deactivate' to let make create .venv." >&2; exit 1; }
