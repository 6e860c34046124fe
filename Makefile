# Everything a newcomer or CI needs; `make` alone lists the targets.
PYTHON ?= python3
BIN := .venv/bin
# The tests fork warm children and run two at a time: one thread each is fastest and reproducible.
export OMP_NUM_THREADS ?= 1
# Tests start thousands of processes: each would compile all of our modules anew where this is set in the environment.
export PYTHONDONTWRITEBYTECODE :=

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# torch first and alone: with torch installed, the rest resolves against it and pulls no other build.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch==$$(sed -n 's/^torch==//p' constraints.txt)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

venv: .venv/ready  ## make the virtual environment .venv

demo: .venv/ready  ## check a bundled broken script, train digits, write both runs as one page: build/demo.html
	@rm -rf build/demo && mkdir -p build
	@echo '$$ trueloop check examples/broken_training.py'
	@$(BIN)/trueloop check --fail-on never --runs build/demo --name broken examples/broken_training.py
	@echo '$$ trueloop train digits'
	@$(BIN)/trueloop train digits --runs build/demo --name digits
	@$(BIN)/trueloop ui --export build/demo.html build/demo/broken build/demo/digits

test: .venv/ready  ## the tests that take less than a second each: minutes in all
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow and not long and not gpu'

slow-test: .venv/ready  ## the others of the suite (tests/slow_tests.txt), but for the long ones; CI runs both
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'slow and not long and not gpu'

thorough: .venv/ready  ## what `make test` leaves out because it takes long; what needs data or other environments is skipped and says so
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'long and not gpu' -rs

lint: .venv/ready  ## ruff and the strict type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

hostile: .venv/ready  ## files that a stranger may send, of every format, given to every verb that reads them: none executes, hangs or fills the memory
	$(BIN)/python -m pytest tests/hostile tests/trust tests/ship/test_untrusted.py tests/ui/test_hostile_folders.py tests/export/test_safety.py tests/export/test_refusals.py -m 'long or not long'

hostile-fuzz: .venv/ready  ## the same files, mutated: MINUTES=10
	$(BIN)/python -m tests.hostile.fuzz --minutes $(or $(MINUTES),10)

fuzz: .venv/ready  ## 2,000 made-up loops against a plain oracle
	$(BIN)/python -m pytest -n 2 tests/fuzz --hypothesis-profile thorough -m 'long or not long'

torture: .venv/ready  ## kill -9 at 200 random moments, in saves too: every resumed run must end with the same bits
	$(BIN)/python -m tests.torture.run --kills 200

ranks: .venv/ready  ## several processes and nodes, killed, stopped, restarted, hung: also the slow ones
	$(BIN)/python -m pytest tests/parallel tests/checkpoint tests/cli/test_launch.py tests/doctor/test_hang.py tests/doctor/test_hang_watch.py tests/doctor/test_remote_ranks.py tests/session/test_hang_watch.py tests/session/test_shared_folder.py -m 'long or not long'

ranks-torture: .venv/ready  ## kill -9 of ranks at 30 random moments, in saves too, under fsdp, ddp and tp: every run must end with the same bits
	$(BIN)/python -m tests.torture.ranks --kills 30

ship: .venv/ready  ## every bundled recipe exported to every target, verified on all its validation samples: DATA=folder of data sets
	$(BIN)/python benchmarks/shipping.py --data "$(DATA)"
	TRUELOOP_DATA=$(DATA) $(BIN)/python -m pytest tests/export tests/ship tests/quantize tests/bench tests/cli/test_export.py tests/cli/test_quantize.py -m 'long or not long'

ship-executorch:  ## the same for ExecuTorch, in its own environment (which `make ship` then finds): DATA=folder of data sets
	test -x .venv-executorch/bin/python || $(PYTHON) -m venv .venv-executorch
	.venv-executorch/bin/pip install --quiet --disable-pip-version-check -c constraints.txt torch==$$(sed -n 's/^torch==//p' constraints.txt)
	.venv-executorch/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[executorch,digits]' pytest hypothesis
	.venv-executorch/bin/python -m pytest tests/export/test_targets.py -k executorch -m 'long or not long'
	.venv-executorch/bin/python benchmarks/shipping.py --targets executorch --data "$(DATA)"

wheel-test: .venv/ready  ## build wheel and sdist, install each into an empty environment, check a script there: PYTHONS=all (3.11 to 3.13), TORCH=all or a version
	TRUELOOP_WHEEL_PYTHONS=$(PYTHONS) TRUELOOP_WHEEL_TORCH=$(TORCH) $(BIN)/python -m pytest tests/test_wheel.py -m long -rP

ecosystem: .venv/ready  ## public scripts, plain and checked: MIRROR=folder of checkouts, TRUELOOP_DATA=folder of small data sets
	$(BIN)/python -m tests.ecosystem.run --install --mirror $(MIRROR) --write docs/ecosystem.md

blind: .venv/ready  ## pairs of the blind rounds, bug and healthy twin: causes still named, twins still silent: TRUELOOP_DATA=folder of small data sets
	$(BIN)/python -m tests.blind.run $(sort $(wildcard tests/blind/rounds/*))

mutate: .venv/ready  ## mechanical bugs in healthy scripts: caught, missed, or the same; writes docs/mutation.md
	$(BIN)/python -m tests.mutation.run --write docs/mutation.md

mutants: .venv/ready  ## one operator or constant of our own code changed at a time, in 100 places: which tests notice
	$(BIN)/python -m tests.mutants.run --count 100 --write docs/mutants.md

evidence: .venv/ready  ## every claim and every proof of tune, also the slow ones; the readiness note of every bundled recipe against the run's files
	$(BIN)/python -m pytest -n 2 tests/claims tests/op_claims tests/optimizer_claims tests/readiness tests/healthy tests/tune tests/cli/test_tune.py tests/cli/test_probe.py tests/cli/test_profile.py tests/kernels -m 'long or not long'

reports: .venv/ready  ## SARIF, Kubernetes and KServe files by their published schemas (MIRROR=folder of checkouts), a task as SkyPilot reads it, the HTML page in a real browser
	test -x .venv-skypilot/bin/python || $(PYTHON) -m venv .venv-skypilot
	.venv-skypilot/bin/pip install --quiet --disable-pip-version-check skypilot
	TRUELOOP_MIRROR=$(MIRROR) $(BIN)/python -m pytest tests/report/test_published.py tests/parallel/test_submit_schema.py tests/serve/test_manifests.py -m long -rs

frameworks: .venv/ready  ## Lightning, Hugging Face Trainer, Accelerate, Ignite under check, in their own environment
	test -x .venv-frameworks/bin/python || $(PYTHON) -m venv .venv-frameworks
	.venv-frameworks/bin/pip install --quiet --disable-pip-version-check -c constraints.txt torch==$$(sed -n 's/^torch==//p' constraints.txt)
	.venv-frameworks/bin/pip install --quiet --disable-pip-version-check -c constraints.txt lightning accelerate transformers pytorch-ignite
	$(BIN)/python -m pytest tests/frameworks tests/site/test_coming_from.py -m long

overhead: .venv/ready  ## what watching costs, watched and plain interleaved
	$(BIN)/python benchmarks/overhead.py

engine-cost: .venv/ready  ## what a step of ours costs beside the loop by hand and, in their own environment, beside the wrappers
	$(BIN)/python benchmarks/engine.py
	test ! -x .venv-frameworks/bin/python || PYTHONPATH=src .venv-frameworks/bin/python benchmarks/engine.py

wrappers: .venv/ready  ## the same small jobs through Lightning, Accelerate, HF Trainer, Ignite (`make frameworks` first) and trueloop: who is right
	$(BIN)/python benchmarks/wrappers.py --write

peers: .venv/ready  ## ten classic bugs, ours beside the peers (their own environments)
	$(BIN)/python -m benchmarks.peers.run --install

cpu-bench: .venv/ready  ## a step on this CPU beside the loop by hand; does the fast path learn as well (DATA=folder of data sets)
	$(BIN)/python benchmarks/cpu.py
	test -z "$(DATA)" || $(BIN)/python benchmarks/fashion.py --data $(DATA) --accuracy --device cpu

serving: .venv/ready  ## a served model under load: batching against none, 10,000 requests with rubbish, the OpenAPI document against schemathesis
	$(BIN)/python benchmarks/serving.py
	$(BIN)/python -m pytest tests/serve tests/cli/test_serve.py -m 'long or not long'

ui-test: .venv/ready  ## `trueloop ui` in a real Chromium: every page, live, 1,000 runs, 1,000,000 steps; pictures in build/ui
	@command -v chromium >/dev/null || { echo 'Chromium is missing: apt-get install -y chromium'; apt-get install -y -qq chromium; }
	$(BIN)/python -m pytest tests/ui -m 'long or not long' -rs

labs: .venv/ready  ## every lab (`trueloop lab`), run here: fails if a measured answer contradicts its text
	$(BIN)/trueloop lab --all

docs: .venv/ready  ## write every page that is made from the code: rules, fields, labs, commands, Python names, lines of ten jobs, architecture
	$(BIN)/trueloop explain --all --output docs/rules
	$(BIN)/python -m tests.recipe.fields_page
	$(BIN)/python -m tests.labs.table
	$(BIN)/python -m tests.site.ten_jobs
	$(BIN)/python -m tests.site.cli_page
	$(BIN)/python -m tests.site.python_page
	$(BIN)/python -m tests.site.architecture_page
	$(BIN)/python -m tests.site.llms_page

figures: .venv/ready  ## say in the line of every measured figure whether its code has changed since, and list all with their age
	$(BIN)/python -m tests.site.figures

pictures: .venv/ready  ## write the pictures of the README: the report on examples/broken_training.py, two pages of `trueloop ui` (needs Chromium)
	$(BIN)/python -m tests.site.picture
	$(BIN)/python -m tests.site.ui_pictures

tutorials: .venv/ready  ## run the steps of every tutorial and write their pages
	$(BIN)/python -m tests.site.tutorial

tutorials-test: .venv/ready  ## run the steps of every tutorial: each command must exit and print as its page says (200 s of one core)
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/site/test_tutorials.py -m long

site: .venv/ready  ## build the documentation as a site in build/site; a broken link or anchor is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

gpu-test:  ## the tests that need a CUDA device, with whatever torch is installed there: PYTHON=python3
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(PYTHON) -m pytest tests/gpu -m gpu -p no:cacheprovider -p no:benchmark

# In parts, each some minutes, for those who are lent a device by the minute.
gpu-bench: gpu-bench-fashion gpu-bench-gpt2 gpu-bench-kernels gpu-bench-verdicts gpu-bench-tune  ## every speed of docs/performance.md on a CUDA device, with whatever torch is installed there: PYTHON=python3 DATA=folder

gpu-bench-fashion:
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(PYTHON) benchmarks/fashion.py --data $(DATA)
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(PYTHON) benchmarks/fashion.py --data $(DATA) --accuracy

gpu-bench-gpt2:
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(PYTHON) benchmarks/linear_cross_entropy.py
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(PYTHON) benchmarks/gpt2.py

gpu-bench-kernels:
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(PYTHON) benchmarks/kernels.py

gpu-bench-verdicts:
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(PYTHON) benchmarks/verdicts.py --only copy_pageable,launch_kernels,compute_device

gpu-bench-tune:
	mkdir -p build
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(PYTHON) -m trueloop tune fashion-mlp --data $(DATA) --fresh --minutes 4.5 --write build/fashion_mlp_tuned.py
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(PYTHON) -m trueloop tune benchmarks/gpt2_124m.py --data $(DATA) --fresh --minutes 4.7 --write build/gpt2_tuned.py

# every target but the environment itself
.PHONY: $(shell grep -oE '^[a-z][a-z-]*:' $(MAKEFILE_LIST) | tr -d ':')
