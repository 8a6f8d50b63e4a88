# The commands of this project. `make demo` and `make test` need Python (3.11 or newer) and make, nothing else:
# they create .venv and install into it. Run again, they install only when pyproject.toml or
# constraints.txt has changed.

PYTHON ?= python3
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt
BASE := $(VENV)/.base-installed
DEV := $(VENV)/.dev-installed
ALL := $(VENV)/.all-installed

# What the bundled model is made of: UD_Chinese-GSDSimp, three more treebanks, and open text; see its card.
GSD ?= data/gsd
UD ?= data/ud
TEXT ?= data/text
# A model folder that teaches instead of four parsers trained here, for example one with a BERT.
TEACHER ?= build/teacher
SILVER ?= 200000
# The model that `make structures` adds the trees inside words to.
MODEL ?= src/zishu/models/default
FILES = gsd = "$(GSD)/$(1).conllu", pud = "$(UD)/pud/$(1).conllu", hk = ["$(UD)/hk/$(1).conllu", "$(UD)/cfl/$(1).conllu"]
TREEBANKS = --set 'data.train={$(call FILES,train)}' $(HELD_OUT)
HELD_OUT = --set 'data.dev={$(call FILES,dev)}' --set 'data.test={gsd = "$(GSD)/test.conllu"}'

.PHONY: help demo lint types test test-page test-all bench results encoder model structures clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      install Zishu for users and show what it does"
	@echo "make test      install it for developers; linter, type checker, tests"
	@echo "make test-page the tests of the web page, which need a browser (Chromium and its driver)"
	@echo "make test-all  the slow tests, too"
	@echo "make bench     measure the speed of the chart and of training"
	@echo "make results   make the tables of docs/results.md again from the records of the runs"
	@echo "make encoder   pre-train the larger encoder of configs/base.toml, from GSD=, UD= and TEXT=folder (many hours)"
	@echo "make model     train the bundled model again, from GSD=, UD= and TEXT=folder (hours); TEACHER=folder of a parser"
	@echo "make structures train the structure scorer of the bundled model (MODEL=folder) again (minutes)"
	@echo "make clean     remove .venv and all that tools have left behind"

# Stamps, written when a step has ended well: what was interrupted is done again.
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

bench: $(DEV)
	$(BIN)/python bench/chart.py
	$(BIN)/python bench/train.py

results: $(DEV)
	$(BIN)/python tools/results.py

build/text.txt: tools/tag_text.py | $(DEV)
	$(PIP) --editable '.[pretrain]'
	mkdir -p build
	$(BIN)/python tools/tag_text.py $@.unfinished $(TEXT)/wiki2019.txt.xz $(TEXT)/everyday.txt.xz:4 $(TEXT)/docs.txt.xz:0.5 $(TEXT)/laws.txt.xz:0.2
	mv $@.unfinished $@

# Both commands continue where they were interrupted. The cards stay as they are: their scores are written by hand.
encoder: build/text.txt
	$(BIN)/zishu pretrain configs/base.toml $(TREEBANKS) --set pretrain.text=$< --resume

# Teachers, their trees of open text in the styles that fit it, and the model that learns from them and the treebanks.
model: build/silver-gsd.conllu build/silver-hk.conllu | runs/styles/seed-0/result.json
	$(BIN)/zishu train configs/self-training.toml $(HELD_OUT) --resume \
	  --set 'data.train={gsd = ["$(GSD)/train.conllu", "$(GSD)/train.conllu", "$(GSD)/train.conllu", "build/silver-gsd.conllu"], pud = "$(UD)/pud/train.conllu", hk = ["$(UD)/hk/train.conllu", "$(UD)/hk/train.conllu", "$(UD)/hk/train.conllu", "$(UD)/cfl/train.conllu", "$(UD)/cfl/train.conllu", "$(UD)/cfl/train.conllu", "build/silver-hk.conllu"]}'
	cp runs/self-training/seed-0/model/* src/zishu/models/default/
	$(MAKE) structures

# The trees inside words, on top of a finished model.
structures: build/wiki.txt build/everyday.txt | $(DEV)
	$(BIN)/zishu train-structures $(MODEL) $(GSD)/train.conllu $(UD)/hk/train.conllu $(UD)/cfl/train.conllu \
	  $(UD)/pud/train.conllu build/everyday.txt build/wiki.txt

runs/styles/seed-0/result.json: | $(DEV)
	$(BIN)/zishu train configs/styles.toml $(TREEBANKS) --resume

build/teacher: | $(DEV)
	$(BIN)/zishu train configs/styles.toml $(TREEBANKS) --seeds 0,1,2,3 --resume
	$(BIN)/zishu ensemble $@ runs/styles/seed-*/model

build/wiki.txt: | $(DEV)
	mkdir -p build
	xz --decompress --stdout $(TEXT)/wiki2019.txt.xz | head -n $(SILVER) > $@

build/everyday.txt: | $(DEV)
	mkdir -p build
	xz --decompress --stdout $(TEXT)/everyday.txt.xz > $@

build/silver-gsd.conllu: build/wiki.txt | $(TEACHER)
	$(BIN)/zishu parse -i $< -o $@ --model $(TEACHER) --style gsd --no-confidence --jobs $(WORKERS) --resume

build/silver-hk.conllu: build/everyday.txt | $(TEACHER)
	$(BIN)/zishu parse -i $< -o $@ --model $(TEACHER) --style hk --no-confidence --jobs $(WORKERS) --resume

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
