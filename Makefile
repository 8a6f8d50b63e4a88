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

# What the shipped model is made of: UD_Chinese-GSDSimp, and open text as the card in src/zishu/models/default tells.
GSD ?= data/gsd
TEXT ?= data/text
TREEBANK := --set data.train=$(GSD)/train.conllu --set data.dev=$(GSD)/dev.conllu --set data.test=$(GSD)/test.conllu

.PHONY: help demo lint types test test-page test-all bench results encoder model clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      install Zishu for users and show what it does"
	@echo "make test      install it for developers; linter, type checker, tests"
	@echo "make test-page the tests of the web page, which need a browser (Chromium and its driver)"
	@echo "make test-all  the slow tests, too"
	@echo "make bench     measure the speed of the chart and of training"
	@echo "make results   make the tables of docs/results.md again from the records of the runs"
	@echo "make encoder   pre-train the encoder of the shipped model again, from GSD=folder and TEXT=folder (an hour)"
	@echo "make model     train one like the shipped model, from GSD=folder, TEXT=folder and the encoder (hours)"
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
	$(BIN)/pytest -rs tests/test_page.py || [ $$? = 5 ] # 5: no test, because there is no browser

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
	$(BIN)/python tools/tag_text.py $@ $(TEXT)/wiki.txt.xz:4 $(TEXT)/docs.txt.xz $(TEXT)/laws.txt.xz:0.33

# Both go on where they were interrupted. The cards stay as they are: their scores are written by hand.
encoder: build/text.txt
	test -e encoders/small/last.safetensors || rm -f encoders/small/weights.safetensors
	$(BIN)/zishu pretrain configs/default.toml $(TREEBANK) --resume

# Four teachers, their trees of open text, and the model that learns from them and the treebank.
model: build/gold-and-silver.conllu
	$(BIN)/zishu train configs/self-training.toml --set data.dev=$(GSD)/dev.conllu --set data.test=$(GSD)/test.conllu --resume
	cp runs/self-training/seed-0/model/* src/zishu/models/default/

build/gold-and-silver.conllu: | $(DEV)
	mkdir -p build
	$(BIN)/zishu train configs/default.toml $(TREEBANK) --seeds 0,1,2,3 --resume
	$(BIN)/zishu ensemble build/teacher runs/default/seed-*/model
	xz --decompress --stdout $(TEXT)/wiki.txt.xz > build/wiki.txt
	$(BIN)/zishu parse -i build/wiki.txt -o build/silver.conllu --model build/teacher --no-confidence --jobs $(WORKERS) --resume
	cat $(GSD)/train.conllu $(GSD)/train.conllu $(GSD)/train.conllu build/silver.conllu > $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
