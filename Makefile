# Two commands for a newcomer: `make demo` and `make test`. Each sets up what it needs in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# One thread a worker: two test processes with two threads each would wait for one another.
PYTEST_ARGUMENTS := -m pytest -n 2 --dist worksteal -q -rs --durations=10
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python $(PYTEST_ARGUMENTS)

# Of `make fuzz`: which mutations, how many, and further options such as --reader.
SEED ?= 16
INPUTS ?= 10000
OPTIONS ?=

# Of `make lock`: extras in requirements.lock; not in it are `postgres` and `serve`, and `insightface`
# and `track`, which constraints.txt lacks too.
LOCKED := detect export heif data clean tune

.PHONY: demo test test-full coverage fuzz pinned faults lint format bench promises figures study tutorials reference docs docs-check dist lock clean gone

demo: $(VENV)/.core
	$(BIN)/verisphere demo

test: lint
	$(PYTEST)

test-full: lint
	$(PYTEST) --full

# Lines of src that the tests of `make test` run, also in the processes that they start; files with the least first.
# A process whose disk a test made full leaves damaged data.
coverage: $(VENV)/.dev
	$(BIN)/coverage erase
	OMP_NUM_THREADS=1 $(BIN)/coverage run $(PYTEST_ARGUMENTS)
	@for file in .coverage.*; do $(BIN)/python -c "import sqlite3, sys; sys.exit(sqlite3.connect(sys.argv[1]).execute('pragma integrity_check').fetchone()[0] != 'ok')" $$file 2>/dev/null || rm -f $$file; done
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# Mutated files to every reader; a finding is added to tests/fuzz/corpus. One thread: processes are forked.
fuzz: $(VENV)/.dev
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m fuzz --seed $(SEED) --inputs $(INPUTS) $(OPTIONS)

# The commands on small inputs, held to the figures that they gave before; several minutes. Where results are meant to
# change: make pinned OPTIONS='--out tests/pinned/before.json'. One thread: a sum depends on how many share it.
pinned: $(VENV)/.dev
	PYTHONPATH=tests:docs OMP_NUM_THREADS=1 $(BIN)/python -m pinned --against tests/pinned/before.json $(OPTIONS)

# Every test that docs/reliability.md names.
faults: $(VENV)/.dev
	$(PYTEST) --full -m faults

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py

# How often promises and intervals hold, in made-up worlds, and on LFW where it lies beside the project: a quick look of a
# few minutes. OPTIONS=--full completes the tables of the docs; a stopped run continues.
promises: $(VENV)/.core
	$(BIN)/python benchmarks/coverage_of_promises.py $(OPTIONS)

# The pictures of docs/losses.md, docs/distillation.md and docs/sparse.md, in place; ONLY=NAME for one of docs/losses.md.
figures: $(VENV)/.core
	PYTHONPATH=docs $(BIN)/python -m figures docs/images/losses $(if $(ONLY),--only $(ONLY),&& \
		PYTHONPATH=docs $(BIN)/python -m figures.distillation && PYTHONPATH=docs $(BIN)/python -m figures.sparse)

# A study whose figures the docs state, by its folder in studies/: make study OF=rules OPTIONS='--data FOLDER'.
study: $(VENV)/.dev
	$(BIN)/python -m studies.$(OF) $(OPTIONS)

# The outputs in docs/tutorials, by running the pages; ONLY=NAME for one.
tutorials: $(VENV)/.dev
	PYTHONPATH=docs $(BIN)/python -m tutorials $(ONLY)

# The pages of docs/reference, and the fields that `train --help` lists, from docstrings, the parser and the recipes.
reference: $(VENV)/.core
	PYTHONPATH=docs $(BIN)/python -m reference

# The site of docs/ in site/, by mkdocs.yml; nothing is fetched. To search it, it must be served:
# .venv/bin/python -m http.server --directory site
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# The site built anew elsewhere with warnings as errors: links, anchors, pages without a place, resources of other hosts.
docs-check: $(VENV)/.dev
	$(BIN)/python -m pytest -q --full tests/docs/test_site.py tests/docs/test_papers.py tests/docs/test_reference.py

# The wheel, the sdist, the bill of materials and their digests: the same bytes from the same commit (docs/releasing.md).
dist: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
dist: $(VENV)/.dev
	@test -z "$$(git status --porcelain)" || \
		{ echo "dist/ is made of the last commit, and there are changes after it; commit them first" >&2; exit 1; }
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	version=$$(ls dist/*.tar.gz | sed 's,dist/verisphere-\(.*\).tar.gz,\1,') && \
		$(BIN)/python release/sbom.py $$version $$SOURCE_DATE_EPOCH dist/verisphere-$$version.cdx.json
	cd dist && sha256sum verisphere-* > SHA256SUMS

# requirements.lock: the versions of constraints.txt with the digests of their files on the public index.
lock: $(VENV)/.dev
	$(BIN)/uv pip compile --no-config --universal --python-version 3.11 --generate-hashes --no-header --quiet \
		--constraint constraints.txt $(addprefix --extra ,$(LOCKED)) pyproject.toml --output-file requirements.lock

clean:
	rm -rf $(VENV)

# pyvenv.cfg stands for the environment: bin/python has the age of what it links to. Where that is gone, as after an
# upgrade of Python, all is set up anew.
$(VENV)/pyvenv.cfg: $(if $(shell test -x $(BIN)/python && echo there),,gone)
	@command -v $(firstword $(PYTHON)) >/dev/null || \
		{ echo "there is no program $(firstword $(PYTHON)); name a Python by: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "verisphere needs Python 3.11 or newer; name one by: make PYTHON=python3.12 ..." >&2; exit 1; }
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "the venv module is missing; on Debian and Ubuntu: apt install python3-venv" >&2; rm -rf $(VENV); exit 1; }

$(VENV)/.core: $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	@echo "installing verisphere into $(VENV) (once; PyTorch is large)"
	@$(PIP) --editable '.[detect,export]'
	@touch $@

$(VENV)/.dev: $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	@echo "installing verisphere and its development tools into $(VENV) (once; PyTorch is large)"
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.core
