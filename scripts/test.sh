#!/usr/bin/env bash
# Runs all checks and tests:  bash scripts/test.sh [--all] [pytest arguments]
#            or no tests but:  bash scripts/test.sh --accuracy [arguments of python -m accuracy]
#
# Makes the environment .venv-test from envs/test.lock if it is not there. --all adds the long tests
# (marks slow, benchmark, accuracy). UMIMILL_TEST_DATA names the folder of the real reads; without it
# the tests that need them are skipped. --accuracy prints how well barcodes are corrected on
# simulated libraries, beside other tools, ten seeds each. The program umi_tools is that which
# UMIMILL_UMI_TOOLS names, else what scripts/umi_tools.sh made; without it its tests are skipped.
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
tables=''
if [[ ${1:-} == --all ]]; then
    shift
    pytest_options=(-n 0 -m '')
elif [[ ${1:-} == --accuracy ]]; then
    shift
    tables=yes
fi
prepare_environment .venv-test test.lock
if [[ -n ${UMIMILL_TEST_DATA:-} ]]; then
    UMIMILL_TEST_DATA=$(realpath -m -- "$UMIMILL_TEST_DATA")
    export UMIMILL_TEST_DATA
fi
if [[ -n ${UMIMILL_UMI_TOOLS:-} ]]; then
    UMIMILL_UMI_TOOLS=$(realpath -m -- "$UMIMILL_UMI_TOOLS")
    export UMIMILL_UMI_TOOLS
elif [[ -x $clone/.venv-umi-tools/bin/umi_tools ]]; then
    export UMIMILL_UMI_TOOLS=$clone/.venv-umi-tools/bin/umi_tools
fi
export PATH=$environment/bin:$PATH
cd "$clone"
if [[ -n $tables ]]; then
    # At the tests' cache of compiled kernels, see tests/conftest.py.
    export NUMBA_CACHE_DIR=${NUMBA_CACHE_DIR:-$clone/.pytest_cache/numba}
    PYTHONPATH=tests:workflow exec python -m accuracy "$@"
fi

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
