#!/usr/bin/env bash
# Runs all checks and tests:  bash scripts/test.sh [--all] [pytest arguments]
#
# Makes the environment .venv-test from envs/test.lock if it is not there. --all adds the long tests
# (marks slow, benchmark, accuracy). UMIMILL_TEST_DATA names the folder of the real reads; without it
# the tests that need them are skipped.
set -euo pipefail

# Two test processes at once, each with whole files, so that no fixture of a file is made twice; those
# of --all measure time and run alone.
parallel=(-n 2 --dist loadfile)

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}" 2>/dev/null || printf '%s' "$0")")
clone=$(dirname -- "$here")
# shellcheck source=scripts/environment.sh
. "$here/environment.sh"

check() {
    printf '== %s\n' "$*"
    "$@" || failed+=("$*")
}

pytest_options=("${parallel[@]}")
if [[ ${1:-} == --all ]]; then
    shift
    pytest_options=(-n 0 -m '')
fi
prepare_environment .venv-test test.lock
if [[ -n ${UMIMILL_TEST_DATA:-} ]]; then
    UMIMILL_TEST_DATA=$(realpath -m -- "$UMIMILL_TEST_DATA")
    export UMIMILL_TEST_DATA
fi
export PATH=$environment/bin:$PATH
cd "$clone"

failed=()
check ruff check .
check ruff format --check .
check mypy
check snakefmt --check Snakefile workflow
check snakemake --lint
check pytest "${pytest_options[@]}" "$@"
if [[ ${#failed[@]} -gt 0 ]]; then
    printf 'failed: %s\n' "${failed[@]}" >&2
    exit 1
fi
