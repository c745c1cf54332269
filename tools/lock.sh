#!/usr/bin/env bash
# Writes the hashed requirements files anew from pyproject.toml and requirements/*.in. Needs `make .tools`.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-.tools/bin/uv}
lock() { # output, inputs…
    local out=$1
    shift
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
        --no-emit-index-url --no-emit-find-links --output-file "$out" "$@"
}
lock requirements/runtime.txt --extra paimon pyproject.toml
lock requirements/dev.txt requirements/dev.in
lock requirements/java.txt requirements/java.in
lock requirements/tools.txt requirements/tools.in
# A lock file names packages and digests, never the place they came from.
if grep -nE '://|--(extra-)?index-url|--find-links' requirements/*.txt; then
    echo "a lock file names a registry" >&2
    exit 1
fi
