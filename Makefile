# The commands of this project. `make demo` and `make test` only need Python (3.11 or newer) and make: they create .venv and
# install into it. Later runs install again only if pyproject.toml or constraints.txt has changed.

PYTHON ?= python3
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt
BASE := $(VENV)/.base-installed
DEV := $(VENV)/.dev-installed
ALL := $(VENV)/.all-installed
DOCS := $(VENV)/.docs-installed

# The data of the bundled models: UD_Chinese-GSDSimp, three more treebanks, and open text; see the model cards.
GSD ?= data/gsd
UD ?= data/ud
TEXT ?= data/text
# The folder of a parser that teaches both models, for example one with a BERT or an ensemble; none by default.
TEACHER ?=
# Sentences of the encyclopaedia that the teacher parses, and further options of training.
SENTENCES ?= 200000
TRAINING ?=
FILES = gsd = "$(GSD)/$(1).conllu", pud = "$(UD)/pud/$(1).conllu", hk = ["$(UD)/hk/$(1).conllu", "$(UD)/cfl/$(1).conllu"]
TREEBANKS = --set 'data.train={$(call FILES,train)}' $(HELD_OUT)
HELD_OUT = --set 'data.dev={$(call FILES,dev)}' --set 'data.test={gsd = "$(GSD)/test.conllu"}'

.PHONY: help demo lint types test test-page test-all test-versions docs dist bench bench-parse results encoder model structures clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      install Zishu for users and show what it does"
	@echo "make test      install it for developers; run linter, type checker and tests"
	@echo "make test-page run the tests of the web page, which need a browser (Chromium and its driver)"
	@echo "make test-all  run the slow tests, too"
	@echo "make test-versions run the tests with the oldest or newest dependencies (VERSIONS=oldest, VERSIONS=newest)"
	@echo "make docs      build the documentation site into build/site; a broken link is an error"
	@echo "make dist      build sdist and wheel, and check them: contents, installation, parsing, training"
	@echo "make bench     measure the speed of the chart and of training"
	@echo "make bench-parse measure the parser and the service on GSD=folder; UDPIPE=model compares with UDPipe 1"
	@echo "make results   update the tables of the docs from the records of runs"
	@echo "make encoder   pre-train the encoders of the bundled models, from GSD=, UD= and TEXT=folder (hours)"
	@echo "make model     train the bundled models again, from GSD=, UD= and TEXT=folder (hours); TEACHER=folder of a parser"
	@echo "make structures train the structure scorers of the bundled models again (minutes)"
	@echo "make clean     remove .venv and everything that was built"

# Stamps are written when a step has succeeded; an interrupted step is repeated.
$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(BASE): pyproject.toml constraints.txt $(VENV)/.created
	$(PIP) --editable .
	@touch $@

$(DEV): pyproject.toml constraints.txt $(VENV)/.created
	$(PIP) --editable '.[dev]'
	@touch $(BASE) $@

$(ALL): pyproject.toml constraints.txt $(VENV)/.created
	$(PIP) --editable '.[dev,ray]'
	@touch $(BASE) $(DEV) $@

$(DOCS): pyproject.toml constraints.txt $(VENV)/.created
	$(PIP) --editable '.[docs]'
	@touch $(BASE) $@

demo: $(BASE)
	$(BIN)/zishu eval examples/sample.conllu examples/prediction.conllu
	$(BIN)/zishu parse --format conllu 政府计划发展金融业。
	$(BIN)/zishu parse 科学家在南极发现了新的恐龙化石。

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy

test: lint types
	$(BIN)/pytest -n $(WORKERS) -m "not slow"

test-page: $(DEV)
	$(BIN)/pytest -rs tests/serve/test_page.py || [ $$? = 5 ] # 5: no test, because there is no browser

test-all: $(ALL) lint types
	$(BIN)/pytest -n $(WORKERS)

# With the oldest versions that pyproject.toml allows, or the newest that exist, in a separate environment. TESTS='-k chart' runs some of the
# tests. Warnings are not errors here: old packages warn about each other.
VERSIONS ?= oldest
TESTS ?=
OTHER := $(VENV)-$(VERSIONS)
test-versions:
	$(PYTHON) -m venv $(OTHER)
	$(PYTHON) tools/oldest.py serve spacy tables train zstd > $(OTHER)/oldest.txt
	$(OTHER)/bin/python -m pip install --quiet --upgrade $(if $(filter oldest,$(VERSIONS)),--constraint $(OTHER)/oldest.txt) --editable '.[test]'
	$(OTHER)/bin/pytest -n $(WORKERS) -m "not slow" -W default $(TESTS)

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# The same bytes for the same commit: the time in the archives is that of the commit, or SOURCE_DATE_EPOCH.
dist: $(VENV)/.created
	$(PIP) build twine
	$(BIN)/python tools/dist.py

bench: $(DEV)
	$(BIN)/python bench/chart.py
	$(BIN)/python bench/train.py

# UDPIPE=MODEL.udpipe compares with UDPipe 1, which needs the package ufal.udpipe.
bench-parse: $(DEV)
	$(BIN)/python bench/parse.py $(GSD)/test.conllu --model default --model fast $(if $(UDPIPE),--udpipe $(UDPIPE))
	$(BIN)/python bench/serve.py $(GSD)/test.conllu --workers $(WORKERS)

results: $(DEV)
	$(BIN)/python tools/results.py

build/text.txt: tools/tag_text.py | $(DEV)
	$(PIP) --editable '.[pretrain]'
	mkdir -p build
	$(BIN)/python tools/tag_text.py $@.unfinished $(TEXT)/wiki2019.txt.xz $(TEXT)/everyday.txt.xz:6 $(TEXT)/docs.txt.xz:0.5 $(TEXT)/laws.txt.xz:0.15
	mv $@.unfinished $@

# All commands continue where they were interrupted. The cards are not changed: their scores are written by hand.
encoder: build/text.txt
	$(BIN)/zishu pretrain configs/default.toml $(TREEBANKS) --set pretrain.text=$< --resume $(TRAINING)
	$(BIN)/zishu pretrain configs/fast.toml $(TREEBANKS) --set pretrain.text=$< --resume $(TRAINING)

# `default` learns from the treebanks, and from TEACHER if there is one; `fast` learns from TEACHER or from `default`.
STYLES := runs/styles/seed-0
DEFAULT := $(if $(TEACHER),runs/taught/seed-0,$(STYLES))
TEXTS := build/gsd.txt build/pud.txt build/hk.txt
TAUGHT = $(TREEBANKS) --set teacher.model=$(or $(TEACHER),$(STYLES)/model) \
  --set 'teacher.text={gsd = "build/gsd.txt", pud = "build/pud.txt", hk = "build/hk.txt"}' --resume $(TRAINING)
model: $(TEXTS) | $(DEV)
	$(BIN)/zishu train configs/styles.toml $(TREEBANKS) --resume $(TRAINING)
	$(if $(TEACHER),$(BIN)/zishu train configs/taught.toml $(TAUGHT))
	$(BIN)/zishu train configs/fast.toml $(TAUGHT)
	cp $(DEFAULT)/model/* src/zishu/models/default/
	cp runs/fast/seed-0/model/* src/zishu/models/fast/
	$(MAKE) structures

# The trees inside words, on top of finished models.
STRUCTURED = $(GSD)/train.conllu $(UD)/hk/train.conllu $(UD)/cfl/train.conllu $(UD)/pud/train.conllu build/hk.txt build/wiki.txt
structures: build/wiki.txt build/hk.txt | $(DEV)
	$(BIN)/zishu train-structures src/zishu/models/default $(STRUCTURED)
	$(BIN)/zishu train-structures --small src/zishu/models/fast $(STRUCTURED)

# Sentences of the encyclopaedia for the styles of its treebanks, stories and dialogues for that of spoken Chinese.
build/wiki.txt: | $(DEV)
	mkdir -p build
	xz --decompress --stdout $(TEXT)/wiki2019.txt.xz | head -n $$(($(SENTENCES) * 5 / 4)) > $@

build/gsd.txt: build/wiki.txt
	head -n $(SENTENCES) $< > $@

build/pud.txt: build/wiki.txt
	tail -n +$$(($(SENTENCES) + 1)) $< > $@

build/hk.txt: | $(DEV)
	mkdir -p build
	xz --decompress --stdout $(TEXT)/everyday.txt.xz > $@

clean:
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-newest build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
