# `make help` lists what there is to do. Everything happens inside of .venv, which is made when it is missing.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test bench bench-quick lint format clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	# torch first and by its exact version: a range would take the newest build with all of CUDA.
	$(BIN)/pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $(INSTALLED)

demo: $(INSTALLED)  ## Convert a small checkpoint, verify it, push it to a Hub on this machine, load it back
	$(BIN)/python examples/demo.py

test: $(INSTALLED)  ## Run the tests
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

bench: $(INSTALLED)  ## Measure speed beside the programs before (sets them up first; about half an hour)
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/training.py

bench-quick: $(INSTALLED)  ## The same with less text and fewer rounds
	$(BIN)/python benchmarks/run.py --quick
	$(BIN)/python benchmarks/training.py --quick

lint: $(INSTALLED)  ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(INSTALLED)  ## Mend style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove the virtual environment and what builds left behind
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
