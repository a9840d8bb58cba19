# What you do every day, by name. `make` alone lists it. All of it works in .venv, which `make setup` creates.
PYTHON ?= .venv/bin/python
SITE ?= build/site

help:  ## list what can be made
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*##/\t/' | expand -t 10

setup:  ## a virtual environment with what the fast tests need, and the hooks of pre-commit if it is installed
	python3 -m venv .venv
	.venv/bin/pip install -e '.[test]'
	@if command -v pre-commit > /dev/null; then pre-commit install; fi

fast:  ## the tests that need no server and little time, with few examples: under three minutes on two cores
	HYPOTHESIS_PROFILE=fast $(PYTHON) -m pytest -q -n auto -o addopts="--strict-markers --strict-config" \
		-m "not slow and not server and not docs" tests

test:  ## everything that can run here: tests, doctests, docs, linter, types
	$(PYTHON) -m pytest -q -n auto

lint:  ## formatter and linter
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check .

types:  ## the type checker
	$(PYTHON) -m mypy

docs:  ## the pages as a site in build/site; needs pip install -e '.[docs]'
	$(PYTHON) -m sphinx -W --keep-going -q -b html -d build/doctrees docs $(SITE)

demo:  ## the whole path on a synthetic census
	$(PYTHON) -m dpsql demo --db $$(mktemp -d)/demo.duckdb

.PHONY: help setup fast test lint types docs demo
