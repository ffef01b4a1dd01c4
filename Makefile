# Every target that needs Python builds .venv first, once; delete .venv to start over.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP_ARGS ?=
TORCH_ARGS ?=
ARGS ?=
T ?= table1

# Raw graphs that lie beside the checkout are used, read-only, unless FGL_DATA says otherwise.
ifeq ($(origin FGL_DATA), undefined)
ifneq ($(wildcard ../shared/data/.),)
export FGL_DATA := $(abspath ../shared/data)
endif
endif

empty :=
comma := ,
space := $(empty) $(empty)
# What a variable holds reaches the shell in quotes: it can be no command, whatever it is.
quoted = '$(subst ','\'',$(1))'
quoted_words = $(foreach word,$(value $(1)),$(call quoted,$(word)))
# "cora pubmed" and "cora,pubmed" are the same; an empty variable gives no option at all
option = $(if $(strip $(value $(2))),$(1) $(call quoted,$(subst $(space),$(comma),$(strip $(value $(2))))))
flag = $(if $(filter-out 0 n N no No NO f F false False FALSE off Off OFF,$(strip $(value $(2)))),$(1))
NARROW = $(strip $(call option,--datasets,DATASETS) $(call option,--clients,CLIENTS) \
	$(call option,--methods,METHODS) $(call option,--seeds,SEEDS) $(call option,--protocol,PROTOCOL))
WITH_ADDED = $(strip $(NARROW) $(call option,--add,ADD))
SWEEP = $(strip $(WITH_ADDED) $(call option,--jobs,JOBS) $(call option,--launcher,LAUNCHER) $(call option,--address,ADDRESS) \
	$(call option,--slurm,SLURM) $(call flag,--fast,FAST) $(call flag,--fresh,FRESH))
# ARGS are split into words as a shell would split them, and nothing more is made of them
override export ARGS := $(value ARGS)
WITH_ARGS = $(BIN)/python -c 'import os, shlex, sys; os.execv(sys.argv[1], sys.argv[1:] + shlex.split(os.environ["ARGS"]))'

# All but FedSage+ and FedLoG, which take minutes: make table1 DATASETS=cora CLIENTS=3 METHODS=fedlog-release
DEMO := --datasets cora --clients 3 --protocol fedlog_matched --methods local,fedavg,fedgcn,fedpub,fedntd,feded

.DEFAULT_GOAL := help
.PHONY: help install demo test lint type format train table1 table2 table9 tables list missing \
	compare report show latex rerun \
	publish site unpack push dashboard bench data clean

help: ## this list
	@echo "usage: make TARGET [VARIABLE=value ...]"
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / {printf "  %-9s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo "all of a paper: make $(firstword $(PAPERS)) (or $(wordlist 2,99,$(PAPERS))); one table or figure of it:"
	@echo "  make fedlog-3, make fedlog-fig9, make fedpub-7a, make fedsage-D1, ...; make list names them"
	@echo "narrow tables by DATASETS=cora,pubmed CLIENTS=3,5 METHODS=fedavg,fedpub SEEDS=0 PROTOCOL=fedlog"
	@echo "ADD=fedgta,ditto:paper puts further methods beside the rows of a paper's table, in a folder apart"
	@echo "published runs count as done, FRESH=1 does them anyway; tables are written into tables/, which git ignores"
	@echo "FAST=1 is a smoke test: two rounds of one corner of a table, nothing kept"
	@echo "JOBS=2 does so many runs at a time; a sweep that was stopped goes on where it was"
	@echo "LAUNCHER=ray (ADDRESS=auto) or LAUNCHER=slurm (SLURM=timeout_min=60) does them on a cluster"

$(STAMP): pyproject.toml setup.py constraints.txt
	test -x $(BIN)/python || $(call quoted,$(value PYTHON)) -m venv $(VENV)
	$(BIN)/python -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "fgl_repro needs Python 3.11 or newer: make install PYTHON=python3.11")'
	@echo "installing into $(VENV): some minutes, once"
	$(BIN)/python -m pip install $(call quoted_words,PIP_ARGS) -qq -c constraints.txt $(call quoted_words,TORCH_ARGS) torch
	$(BIN)/python -m pip install $(call quoted_words,PIP_ARGS) -qq -c constraints.txt -e ".[dev]"
	touch $@

install: $(STAMP) ## make .venv with pinned versions (PYTHON=python3.12, TORCH_ARGS="--index-url ..." if wanted)

demo: $(STAMP) ## Table 1 of FedLoG for Cora and 3 clients: six methods, three seeds, beside the paper
	$(BIN)/fgl-table run fedlog/1 $(DEMO) --fresh $(strip $(call option,--jobs,JOBS) $(call flag,--fast,FAST))

test: export OMP_NUM_THREADS = 1
test: $(STAMP) ## run the tests (ARGS="-k records -x")
	$(WITH_ARGS) $(BIN)/pytest -n auto --dist worksteal

lint: $(STAMP) ## ruff: rules and format; import-linter: who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

type: $(STAMP) ## mypy, strict
	$(BIN)/mypy

format: $(STAMP) ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

train: $(STAMP) ## one run or a Hydra sweep: ARGS="method=fedpub dataset=cora seed=0" (-m for several)
	$(WITH_ARGS) $(BIN)/fgl-train

table1 table2 table9: $(STAMP)
	$(BIN)/fgl-table run $(call quoted,$@) $(SWEEP)

table1: ## FedLoG Table 1: seen graph
table2: ## FedLoG Table 2: unseen node, missing class, new client
table9: ## FedLoG Table 9: open set

# make fedlog: every table and figure of that paper; make fedlog-3, make fedpub-7a, make fedlog-fig9: one of them
PAPERS := $(notdir $(patsubst %/,%,$(wildcard conf/table/*/)))
.PHONY: $(PAPERS)
$(PAPERS): $(STAMP)
	$(BIN)/fgl-table run $(call quoted,$@) $(SWEEP)

define ONE_TABLE
$(1)-%: $$(STAMP)
	$$(BIN)/fgl-table run $$(call quoted,$$@) $$(SWEEP)
endef
$(foreach paper,$(PAPERS),$(eval $(call ONE_TABLE,$(paper))))

tables: $(PAPERS) ## every table and figure of every paper

list: $(STAMP) ## tables and figures, and how much of each is recorded
	$(BIN)/fgl-table list

missing: $(STAMP) ## commands of the runs T still lacks (T=table1, T=fig9, or T=fedlog: all)
	$(BIN)/fgl-table missing $(call quoted,$(value T)) $(WITH_ADDED)

compare: $(STAMP) ## write T into tables/ from the runs there are, beside the printed numbers
	$(BIN)/fgl-table compare $(call quoted,$(value T)) $(WITH_ADDED)

report: $(STAMP) ## every table and protocol of each paper condensed into tables/<paper>/README.md
	$(BIN)/fgl-table report

show: $(STAMP) ## table T from the records there are
	$(BIN)/fgl-table show $(call quoted,$(value T)) $(WITH_ADDED)

latex: $(STAMP) ## table T for a paper of yours: make -s latex T=fedlog/1 > table.tex (PRINTED=1: the printed numbers below)
	$(BIN)/fgl-table latex $(call quoted,$(value T)) $(strip $(WITH_ADDED) $(call flag,--print,PRINTED))

rerun: $(STAMP) ## repeat the run of one record: KEY=first digits of its key
	@test -n $(call quoted,$(value KEY)) || { echo "which run? make rerun KEY=<first digits of a record's key>" >&2; exit 2; }
	$(BIN)/fgl-table rerun $(call quoted,$(value KEY))

publish: $(STAMP) ## pack your records into results/ and write its tables and pages: nothing else changes what is committed
	$(BIN)/fgl-table publish

site: $(STAMP) ## results, findings, methods and guides as a web site: open site/index.html
	$(BIN)/fgl-table site

unpack: $(STAMP) ## make records from results/<paper>/{runs,curves}.csv again
	$(BIN)/fgl-table unpack

push: $(STAMP) ## log the recorded runs of table T to W&B (ARGS="--mode online")
	$(WITH_ARGS) $(BIN)/fgl-table push $(call quoted,$(value T)) $(WITH_ADDED)

dashboard: $(STAMP) ## W&B workspace and report of table T, as files (ARGS="--entity TEAM": saved there)
	$(WITH_ARGS) $(BIN)/fgl-table dashboard $(call quoted,$(value T)) $(WITH_ADDED)

bench: $(STAMP) ## milliseconds a round: the stacked engine and a loop over clients
	$(WITH_ARGS) $(BIN)/python -m benchmarks.rounds

data: $(STAMP) ## fetch and check all graphs (DATASETS=cora,actor for some)
	$(BIN)/fgl-data check $(if $(strip $(value DATASETS)),$(foreach name,$(subst $(comma),$(space),$(value DATASETS)),$(call quoted,$(name))),all)

clean: ## remove caches of tools and Hydra's outputs; records, data and .venv stay
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis build outputs multirun
	find src tests benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} +
