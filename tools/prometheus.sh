#!/usr/bin/env bash
# promtool, of Debian's prometheus, for the tests of alerts and metrics: installed where we may, left out by name where we may not.
set -euo pipefail
if command -v promtool >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing promtool for the tests"
    export DEBIAN_FRONTEND=noninteractive
    if { apt-get -qq update && apt-get -qq install -y --no-install-recommends prometheus; } >/dev/null 2>&1; then
        exit 0
    fi
    echo "apt-get could not install prometheus" >&2
fi
if [ "${CI:-}" = true ]; then
    echo "promtool is missing, and in CI no test may be skipped" >&2
    exit 1
fi
echo "promtool is missing: the tests of alert rules will be skipped (install prometheus with your package manager to run them)"
