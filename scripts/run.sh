#!/usr/bin/env bash
# Runs the workflow:  bash scripts/run.sh [snakemake arguments]
#
# Makes the environment .venv from envs/run.lock if it is not there, then starts Snakemake with all
# arguments. Added where they are not given: --snakefile (this clone's), --cores all, and --directory
# (this clone) if the current folder has no config/config.yaml.
set -euo pipefail

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}" 2>/dev/null || printf '%s' "$0")")
clone=$(dirname -- "$here")
# shellcheck source=scripts/environment.sh
. "$here/environment.sh"

# Says which of Snakemake's options that matter here are among the arguments. Snakemake takes long
# options cut short (--core 4) and short ones joined (-nc4).
scan_arguments() {
    local argument letters
    for argument in "$@"; do
        case $argument in
            --) return ;;
            --cor* | --jobs | --jobs=* | --prof* | --workflow-p* | --ex[!p]*) has_cores=yes ;;
            --sn*) has_snakefile=yes ;;
            --di*) has_directory=yes ;;
            --configfile*) has_configfile=yes ;;
            --*) ;;
            -?*)
                letters=${argument#-}
                letters=${letters#"${letters%%[!hntkfFlSDvpa]*}"}
                case $letters in
                    c* | j* | e*) has_cores=yes ;;
                    s*) has_snakefile=yes ;;
                    d*) has_directory=yes ;;
                esac
                ;;
        esac
    done
}

# A default profile sets cores or an executor as well; these are the places where Snakemake looks.
has_default_profile() {
    [[ -n ${SNAKEMAKE_PROFILE:-} || -e default || -e profiles/default ||
        -e $clone/profiles/default ]]
}

# Snakemake's own entry point, which says at the end where the report is. Inside one process, so that
# signals and the exit status need no passing on.
run_and_say='
import os, sys
from snakemake.cli import main
report = sys.argv.pop(1)
sys.argv[0] = "snakemake"
try:
    main()
except SystemExit as end:
    if not end.code and os.path.exists(report):
        print("The report is", report)
    raise
'

has_cores='' has_snakefile='' has_directory='' has_configfile=''
scan_arguments "$@"
prepare_environment .venv run.lock

directory=$PWD
options=()
if [[ -z $has_snakefile ]]; then
    options+=(--snakefile "$clone/Snakefile")
    if [[ -z $has_directory && -z $has_configfile && ! -e config/config.yaml ]]; then
        say "no config/config.yaml in $PWD, so this runs in $clone"
        directory=$clone
        options+=(--directory "$clone")
    fi
fi
if [[ -z $has_cores ]] && ! has_default_profile; then
    options+=(--cores all)
fi

if [[ $# -gt 0 ]]; then
    exec "$clone/.venv/bin/snakemake" ${options[@]+"${options[@]}"} "$@"
fi
exec "$clone/.venv/bin/python" -P -c "$run_and_say" "$directory/results/report/index.html" \
    "${options[@]}"
