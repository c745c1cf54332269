#!/usr/bin/env bash
# tmux for the tests that take pictures of a terminal: installed where we may, left out by name where we may not.
set -euo pipefail
if command -v tmux >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing tmux for the tests"
    export DEBIAN_FRONTEND=noninteractive
    if { apt-get -qq update && apt-get -qq install -y tmux; } >/dev/null 2>&1; then
        exit 0
    fi
    echo "apt-get could not install tmux" >&2
fi
if [ "${CI:-}" = true ]; then
    echo "tmux is missing, and in CI no test may be skipped" >&2
    exit 1
fi
echo "tmux is missing: the tests that take pictures of a terminal will be skipped (install it with your package manager to run them)"
