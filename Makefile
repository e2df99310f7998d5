# Everything a person or a machine does here, by name. `make` lists the targets.

SHELL := /bin/bash
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH):/usr/sbin:/sbin

CLANG ?= clang-19
CPU ?= v3
# Where cargo puts what it builds: some have one folder for all projects.
KARA := $(or $(CARGO_TARGET_DIR),target)/release/kara
# clang for BPF does not look into the host's multiarch folder, where <asm/types.h> is.
BPF_CFLAGS ?= -O2 -g -Wall -target bpf -mcpu=$(CPU) -idirafter /usr/include/$(shell uname -m)-linux-gnu

.PHONY: help setup build demo test corpus fmt lint clean
.DEFAULT_GOAL := help

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building, testing and the demo need (apt, Rust); quick when all is there
	@scripts/setup

build: setup ## build kara: target/release/kara
	cargo build --release -p karakoram-cli

demo: build build/xdp_count.o ## compile an example XDP program, optimize it, print what that gained
	$(KARA) opt build/xdp_count.o -o build/xdp_count.opt.o

test: setup ## run every test
	cargo test --workspace --release

corpus: setup ## rebuild the 60 benchmark programs from Debian's source packages
	scripts/corpus

fmt: setup ## format the Rust sources
	cargo fmt --all

lint: setup ## check formatting and lints, as the continuous integration does
	cargo fmt --all -- --check
	cargo clippy --workspace --all-targets --release -- -D warnings

clean: ## remove what was built; the downloaded packages of the corpus stay
	cargo clean
	rm -rf build

build/%.o: programs/%.c | setup
	@mkdir -p build
	$(CLANG) $(BPF_CFLAGS) -c $< -o $@
