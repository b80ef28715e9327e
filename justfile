target := env("CARGO_TARGET_DIR", "target")

# List the recipes.
[private]
default:
    @just --list

# Install the development tools and start a Docker engine.
tools:
    .ci/tools.sh

# Type-check everything.
check:
    cargo check --workspace --all-targets --locked

# Run the unit, integration and documentation tests.
test *ARGS:
    cargo nextest run --workspace --locked {{ ARGS }}
    cargo test --quiet --doc --workspace --locked

# Run the integration tests whose names contain NAME.
test-it NAME:
    cargo nextest run --locked --test it {{ NAME }}

# Run the container tests on IMAGE.
test-box IMAGE *ARGS:
    .ci/box.sh {{ IMAGE }} {{ ARGS }}

# Check formatting, spelling, scripts and workflows, then run clippy.
lint:
    .ci/lint.sh
    cargo clippy --workspace --all-targets --locked -- --deny warnings

# Format everything.
fmt:
    git ls-files -z '*.rs' | xargs -0 rustfmt --edition 2024
    taplo fmt
    just --fmt
    ruff format .ci tests/conformance

# Run each fuzz target for SECONDS.
fuzz SECONDS="60" *TARGETS:
    .ci/fuzz.sh {{ SECONDS }} {{ TARGETS }}

# Run the code blocks of the documentation.
docs *PAGES:
    python3 .ci/docs.py {{ PAGES }}

# Check the instructions of CONTRIBUTING.md for endpoints and protocols.
docs-extend:
    python3 .ci/extend.py

# Build the API documentation of the crate, with private items.
rustdoc:
    cargo doc --workspace --no-deps --document-private-items --locked --open

# Benchmark the release build: OPTIONS of `tester bench`.
bench *OPTIONS: binary
    cargo build --locked --release --package tester
    {{ target }}/release/tester bench {{ OPTIONS }} 127.0.0.1 8899 -- \
        {{ target }}/x86_64-unknown-linux-musl/release/sandbox-runtime \
        --listen 127.0.0.1:8899 --base-dir "$(mktemp -d)"

# Build the static release binary.
binary:
    cargo build --locked --release --package sandbox-runtime --target x86_64-unknown-linux-musl

# Build the default image.
image TAG="sandbox-runtime": binary
    docker build --file Dockerfile.scratch --tag {{ TAG }} .

# Build the image and test it in a container.
docker *ARGS:
    ./run-test-docker.sh {{ ARGS }}

# Test the image on a kind cluster.
kind *ARGS:
    ./run-test-kind.sh {{ ARGS }}

# Build the files of a release in DIRECTORY.
release DIRECTORY:
    .ci/release.sh {{ DIRECTORY }}

# Run all checks of CI.
ci:
    bash .ci/run
