# `make help` lists what there is to do. Everything happens inside of .venv, which is made when it is missing.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help demo first-minute readme train-english wheel test test-slow test-plain test-lowest coverage mutations suites api fuzz bench bench-quick bench-guard lint format clean test-page docs release-check release-notes

help:  ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	# torch first and by its exact version: a range would take the newest build with all of CUDA.
	$(BIN)/pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $(INSTALLED)

demo: $(INSTALLED)  ## See what the English model in the package knows
	$(BIN)/elmo-hf demo

PYTEST = $(BIN)/python -m pytest --numprocesses 2 --dist loadfile
test: $(INSTALLED)  ## Run the quick tests, for every edit
	$(PYTEST) -m "not slow"

test-slow: $(INSTALLED)  ## Run the slow tests: kills, several processes, recipes, wheels, compilers
	$(PYTEST) -m slow

# Tests that compute nothing with a model are the same with and without kernels.
COMPUTES_NOTHING = tokenization_elmo splitting_elmo unicode_splitting configuration_elmo head_settings travelling_files \
	readers conll labels entity_metrics
test-plain: $(INSTALLED)  ## Run the tests of the model and of the tasks again, without kernels
	ELMO_HF_KERNELS=0 $(PYTEST) -m "not slow" $(patsubst %,--ignore-glob="*/test_%.py",$(COMPUTES_NOTHING)) \
	  tests/model tests/tasks tests/language_model

test-lowest:  ## Run the quick tests with the lowest versions that pyproject.toml allows (TORCH=... for torch's)
	rm -rf .venv-lowest && $(PYTHON) -m venv .venv-lowest
	$(PYTHON) tests/tools/lowest_versions.py $(TORCH) > .venv-lowest/requirements.txt
	.venv-lowest/bin/pip install --quiet "$$(grep '^torch==' .venv-lowest/requirements.txt)"
	.venv-lowest/bin/pip install --quiet --requirement .venv-lowest/requirements.txt
	.venv-lowest/bin/pip install --quiet --no-deps --no-build-isolation --editable .
	.venv-lowest/bin/pip freeze --exclude-editable
	.venv-lowest/bin/python -m pytest --numprocesses 2 --dist loadfile -m "not slow"

coverage: $(INSTALLED)  ## Measure which lines and branches the quick tests run
	$(PYTEST) -m "not slow" --cov elmo_hf --cov conversion --cov-branch --cov-report term:skip-covered

mutations: $(INSTALLED)  ## Check that the tests notice defects: each is made in a copy
	$(BIN)/python tests/tools/mutations.py

suites: $(INSTALLED)  ## Run transformers' own test suites; print passed, failed and not applicable, with reasons
	$(BIN)/python tests/tools/suites_report.py

api: $(INSTALLED)  ## Renew the snapshot of the public API
	$(BIN)/python tests/tools/public_api.py

fuzz: $(INSTALLED)  ## Try hostile and broken things for 10 minutes, or MINUTES=...
	cd tests && PYTHONPATH=. ../$(BIN)/python -m fuzz $(or $(MINUTES),10)
	$(BIN)/python tests/fuzz/kills.py embed --kills 100
	$(BIN)/python tests/fuzz/kills.py pretrain --kills 20

test-page: $(INSTALLED)  ## Run the tests of the page in a real browser (installs gradio, playwright; as root Chromium)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[page]" playwright
	# Without Chromium the tests of the browser say so and are passed over.
	command -v chromium || [ "$$(id -u)" != 0 ] || ! command -v apt-get || \
	  timeout 240 sh -c 'apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends chromium' > /dev/null || true
	timeout 600 $(BIN)/python -m pytest tests/page -rs

bench: $(INSTALLED)  ## Measure speed beside the programs before (sets them up first; about half an hour)
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/embedding.py

bench-quick: $(INSTALLED)  ## The same with less text and fewer rounds
	$(BIN)/python benchmarks/run.py --quick
	$(BIN)/python benchmarks/training.py --quick
	$(BIN)/python benchmarks/embedding.py --sentences 200 --rounds 1

bench-guard: $(INSTALLED)  ## Compare speed with another checkout: OTHER=folder or git revision, OPTIONS=...
	$(BIN)/python benchmarks/guard.py $(or $(OTHER),HEAD) $(OPTIONS)

first-minute: $(INSTALLED)  ## Install the wheel somewhere clean; time the demonstration there, without a network
	$(BIN)/python benchmarks/first_minute.py

readme: $(INSTALLED)  ## Run what the README shows and write what it prints
	$(BIN)/python examples/english/pictures.py
	$(BIN)/python tests/documentation.py --update

wheel: $(INSTALLED)  ## Build the wheel, with the native loop for six platforms (downloads the compiler, 90 MB)
	$(BIN)/pip install --quiet ziglang
	$(BIN)/python elmo_hf/kernels/native/build.py
	$(BIN)/python -m build --wheel
	cd elmo_hf/kernels/native && rm -f *.so *.dylib *.dll libraries.json

release-check: $(INSTALLED)  ## Build the release TAG=v..., check it, and run it in a clean environment
	$(BIN)/python tests/tools/release.py check $(TAG)
	rm -rf dist
	$(BIN)/python -m build --sdist
	$(MAKE) wheel
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tests/tools/release.py install

release-notes:  ## Write the notes of the release TAG=v... into build/release-notes.md
	@mkdir -p build
	$(PYTHON) tests/tools/release.py notes $(TAG) > build/release-notes.md

RUN ?= english-run
SOURCES := enwik8 openstax litbank tatoeba wiki_excellent wiki_2014 wiki_2020 novels_new
train-english: $(INSTALLED)  ## Make the English model again: DATA=folder of its sources, RUN=folder for the run
	@test -n "$(DATA)" || { echo "DATA=folder is missing: examples/english/README.md says what it holds"; exit 1; }
	$(BIN)/python examples/english/prepare.py $(DATA) $(RUN)/text
	$(BIN)/python -m torch.distributed.run --nproc-per-node 2 -m elmo_hf.cli pretrain \
		$(foreach name,$(SOURCES),$(RUN)/text/train/$(name).txt) --held-out $(RUN)/text/held-out-mix.txt \
		--splitting moses-en --tokenized --dropout 0.0 --batch-size 128 --num-sampled 2048 \
		--size examples/english/size.json --max-size 24000 --learning-rate 0.005 --warmup-steps 1000 \
		--stop-after $(or $(STEPS),25000) --evaluate-every 3000 --save-every 1000 --threads 1 --language en \
		-o $(RUN)/model $(RESUME)
	$(BIN)/python examples/english/bundle.py $(RUN)/model $(or $(OUTPUT),elmo_hf/bundled/english)

lint: $(INSTALLED)  ## Check style, types and workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/python tests/tools/check_workflows.py

docs: $(INSTALLED)  ## Build the documentation into docs/_build/html; warnings are errors
	$(BIN)/sphinx-build -W --keep-going -n -q docs docs/_build/html

format: $(INSTALLED)  ## Mend style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove the virtual environment and what builds left behind
	rm -rf .venv .venv-lowest build dist docs/_build *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .coverage
