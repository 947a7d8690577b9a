# make demo: a replay of real load, as build/demo/report.html.
# make test: everything that must hold, in an environment made from nothing.  make docs: the site, as build/site/index.html.
# make reproduce: the paper, as reproduction/report.html.
# make dist: the files of a release, tried.  make kernels: after it, the pack of kernels.  make sbom: what a release needs.
# make bench: the speed table.  make ensembles, make reproduction-page, make studies, make arena-page, make leaderboard: the
# tables of docs/ensembles.md, docs/reproduction.md, docs/sweeps.md, docs/arena.md and docs/leaderboard.md.  make picture: the
# README's.  make connect: that of docs/howto/prometheus.md, and the table of docs/howto/kubernetes.md.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONHASHSEED := 0
# Tests start many processes, which read compiled bytecode faster than sources.
export PYTHONDONTWRITEBYTECODE :=

# LOCKED=1 installs the versions of constraints.txt in place of the newest.
.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode $(if $(LOCKED),--constraint constraints.txt) --editable '.[cli,cluster,excel,polytope,portfolio,postgres,serve,docs,dev]'
	touch $@

# The demo needs less than the tests; where the tests' environment is ready, it has all of that.
.venv/demo: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[cli]'
	touch $@

.PHONY: demo picture connect test lint types layers browser database systems tests uncompiled docs torture reproduce reproduction-page bench ensembles studies arena-page leaderboard clean dist kernels sbom constraints

demo: $(if $(wildcard .venv/ready),.venv/ready,.venv/demo)
	@mkdir -p build/demo
	@$(BIN)/python -c "from klazy.datasets import llm_requests; llm_requests(seconds=10).select('time', 'requests').write_csv('build/demo/load.csv')"
	@echo "Replaying an hour of requests to a language-model service; the first time, klazy compiles for some seconds."
	@$(BIN)/klazy replay build/demo/load.csv --domain box --upper 100 --costs pinball --short 4 --move-cost 3 --html build/demo/report.html
	@echo "Open $(CURDIR)/build/demo/report.html in a browser."

# The checks run beside each other. The tests print as they go, every other check when it ends.
CHECKS := tests types lint layers
test:
	@rm -rf build/held
	@mkdir -p build/held
	@$(MAKE) --jobs=3 --keep-going --output-sync=target --no-print-directory $(CHECKS:%=build/held/%) || \
	  { for check in $(CHECKS); do test -e build/held/$$check || echo "failed: make $$check"; done; exit 1; }
	@echo "all hold: $(CHECKS)"

build/held/%: %
	@touch $@

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/deptry .

types: .venv/ready
	$(BIN)/pyright

layers: .venv/ready
	$(BIN)/lint-imports

# Reports are looked at in a real browser, the system's own.
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
browser:
	@command -v chromium >/dev/null || \
	  { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends chromium >/dev/null; }

# Stores are tested in a real PostgreSQL and behind a real PgBouncer, too; tests start their own, in a temporary folder.
database: browser  # one after the other: apt lets one in at a time
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || \
	  { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends postgresql >/dev/null; }
	@command -v pgbouncer >/dev/null || test -x /usr/sbin/pgbouncer || \
	  { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends pgbouncer >/dev/null; }

# Sources and sinks are tested with a real Prometheus and a real HAProxy; tests start their own here, too.
systems: database
	@{ command -v promtool && command -v prometheus && { command -v haproxy || test -x /usr/sbin/haproxy; }; } >/dev/null || \
	  { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends prometheus haproxy openssl >/dev/null; }

# The whole suite with compiled kernels, in one process more than CI has cores, for some tests wait. The + lets its output through at once.
tests: .venv/ready browser systems docs/node_modules
	+$(BIN)/pytest -q -n 3 --dist loadgroup -m "not long" --durations=12

# What exercises kernels once more, as plain Python: compilation is off. In `make test` the simulator of a GPU does this.
KERNELS := tests/test_kernels.py tests/test_seasonal.py tests/test_batch.py tests/test_fleet.py::TestInMemory tests/torture/test_torture_limits.py
uncompiled: .venv/ready
	HYPOTHESIS_PROFILE=few NUMBA_DISABLE_JIT=1 $(BIN)/pytest -q --timeout 0 $(KERNELS)

# Hours of hostile input, kills and damage to files, and the table of docs/reliability.md; `make test` runs a sample of each.
# SHARE=0.1 runs a tenth.
SHARE := 1
torture: .venv/ready systems uncompiled
	$(BIN)/pyright tests benchmarks
	$(BIN)/pytest -q --timeout 0 -m long
	KLAZY_TORTURE=$(SHARE) $(BIN)/pytest -q --timeout 0 -n auto --dist worksteal tests/torture
	$(BIN)/python benchmarks/reliability.py --write docs/reliability.md

# Mathematics in the site is drawn by MathJax, from npm.
docs/node_modules: docs/package.json
	@command -v npm >/dev/null || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends npm >/dev/null; }
	npm install --prefix docs --no-package-lock --no-audit --no-fund --silent
	touch $@

docs: .venv/ready docs/node_modules
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs build/site
	@echo build/site/index.html

# The release's files, checked, and tried in an empty environment of each Python named: make dist PYTHONS="3.12 3.13".
PYTHONS ?= $(PYTHON)
dist: .venv/release
	rm -rf dist build/empty
	$(BIN)/python scripts/release.py check
	$(BIN)/python -m build --installer uv --quiet
	$(BIN)/twine check --strict dist/*
	for python in $(PYTHONS); do \
	  $(BIN)/uv venv --quiet --clear --python $$python build/empty && \
	  for extras in cli cli,cluster,excel,polytope,portfolio,postgres,serve; do \
	    $(BIN)/uv pip install --quiet --python build/empty "$$(ls $(CURDIR)/dist/*.whl)[$$extras]" && \
	    build/empty/bin/python scripts/try_install.py || exit 1; \
	  done || exit 1; \
	done

# The pack of kernels that are compiled ahead, a wheel for each Python named, tried next to the wheel of `make dist`. It compiles
# for minutes for each Python; the processor must have AVX-512.
kernels: .venv/release
	rm -rf build/pack
	for python in $(PYTHONS); do \
	  $(BIN)/uv venv --quiet --clear --python $$python build/empty && \
	  $(BIN)/uv pip install --quiet --python build/empty "$$(ls $(CURDIR)/dist/klazy-*.whl)[cli]" && \
	  build/empty/bin/python scripts/kernels.py --out build/pack && \
	  $(BIN)/uv pip install --quiet --python build/empty --no-deps build/pack/*.whl && \
	  build/empty/bin/python scripts/try_install.py && \
	  mv build/pack/*.whl dist/ || exit 1; \
	done

# What the wheel needs, as versions and licences (build/sbom.json), and whether any of it has a known vulnerability.
sbom: .venv/release
	$(BIN)/uv venv --quiet --clear build/empty
	$(BIN)/uv pip install --quiet --python build/empty '.[cli]'
	$(BIN)/cyclonedx-py environment --output-reproducible --output-file build/sbom.json build/empty/bin/python
	$(BIN)/uv pip freeze --quiet --python build/empty | grep -v '^klazy' > build/needed.txt
	$(BIN)/pip-audit --strict --disable-pip --no-deps --requirement build/needed.txt

# The versions with which everything was tried last; `uv pip install --constraint constraints.txt` installs these.
constraints: .venv/ready
	$(BIN)/uv pip compile --quiet --universal --no-emit-index-url --no-emit-find-links --no-annotate --no-header --python-version 3.11 \
	  --all-extras --output-file constraints.txt pyproject.toml

.venv/release: .venv/ready
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[release]'
	touch $@

reproduce: .venv/ready
	$(BIN)/klazy reproduce

reproduction-page: .venv/ready
	$(BIN)/python benchmarks/reproduction.py --write docs/reproduction.md

picture: .venv/ready
	$(BIN)/python benchmarks/picture.py --write docs/figures/load.png

connect: .venv/ready systems
	$(BIN)/python benchmarks/connect.py --write docs/figures/prometheus.png
	$(BIN)/python benchmarks/autoscalers.py --write docs/howto/kubernetes.md

bench: .venv/ready
	$(BIN)/python benchmarks/bench.py --write docs/benchmarks.md
	$(BIN)/python benchmarks/start.py --write docs/benchmarks.md
	$(BIN)/python benchmarks/levels.py --write docs/benchmarks.md
	$(BIN)/python benchmarks/serve.py --write docs/benchmarks.md
	$(BIN)/python benchmarks/aims.py --write docs/benchmarks.md

ensembles: .venv/ready
	$(BIN)/python benchmarks/ensembles.py --write docs/ensembles.md

arena-page: .venv/ready
	$(BIN)/python benchmarks/arena.py --write docs/arena.md

leaderboard: .venv/ready
	$(BIN)/python benchmarks/leaderboard.py --write docs/leaderboard.md

studies: .venv/ready
	$(BIN)/python benchmarks/studies.py --write docs/sweeps.md
	$(BIN)/python benchmarks/bayes.py --write docs/ensembles.md

clean:
	rm -rf .venv build dist docs/node_modules docs/api docs/gallery
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
