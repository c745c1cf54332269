#!/usr/bin/env bash
# PostgreSQL for the tests that need it: installed where we may, left out by name where we may not.
set -euo pipefail
if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing PostgreSQL for the tests"
    export DEBIAN_FRONTEND=noninteractive
    # The distribution would start a server of its own at once; the tests start theirs on a free port.
    mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
    if { apt-get -qq update && apt-get -qq install -y postgresql; } >/dev/null 2>&1; then
        exit 0
    fi
    echo "apt-get could not install PostgreSQL" >&2
fi
if [ "${CI:-}" = true ]; then
    echo "PostgreSQL is missing, and in CI no test may be skipped" >&2
    exit 1
fi
echo "PostgreSQL is missing: the tests marked 'postgres' will be skipped (install it with your package manager to run them)"
