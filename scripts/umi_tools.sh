#!/usr/bin/env bash
# Compiles umi_tools, which tests and the accuracy tables run beside umimill:
#   bash scripts/umi_tools.sh
#
# There is no wheel of it. It gets an environment of its own, .venv-umi-tools, which scripts/test.sh
# finds; without it the comparisons are skipped. Takes a C compiler, Python's headers and a minute.
set -euo pipefail

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}" 2>/dev/null || printf '%s' "$0")")
clone=$(dirname -- "$here")
# shellcheck source=scripts/environment.sh
. "$here/environment.sh"

prepare_environment .venv-umi-tools umi_tools.lock
if [[ -x $environment/bin/umi_tools ]]; then
    exit
fi
command -v cc >/dev/null ||
    fail "no C compiler here; run: sudo apt-get install gcc python3-dev"
log=$environment/umi_tools.log
# What builds it is in the environment already, so that no unlocked version of that is fetched.
if ! "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-user \
    --no-deps --no-build-isolation --require-hashes --no-binary :all: \
    -r "$clone/envs/umi_tools_source.lock" >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    fail "could not compile umi_tools; the whole log is $log"
fi
