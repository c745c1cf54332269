#!/usr/bin/env bash
# Chromium for the tests that look at pages: installed where we may, left out by name where we may not.
set -euo pipefail
if command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing Chromium for the tests"
    export DEBIAN_FRONTEND=noninteractive
    if { apt-get -qq update && apt-get -qq install -y chromium; } >/dev/null 2>&1; then
        exit 0
    fi
    echo "apt-get could not install Chromium" >&2
fi
if [ "${CI:-}" = true ]; then
    echo "Chromium is missing, and in CI no test may be skipped" >&2
    exit 1
fi
echo "Chromium is missing: the tests that look at pages will be skipped (install it with your package manager to run them)"
