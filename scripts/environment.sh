# shellcheck shell=bash
# Makes the Python environments of run.sh and test.sh, which source it.

clone=${clone:?is set by the script that sources this}

say() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
}

fail() {
    say "$@"
    exit 1
}

check_machine() {
    local system machine
    system=$(uname -s)
    machine=$(uname -m)
    [[ $system == Linux ]] ||
        fail "umimill runs on Linux only and this is $system; use a Linux machine, a container or WSL"
    [[ $machine == x86_64 || $machine == aarch64 ]] ||
        fail "umimill runs on x86_64 and aarch64 only and this is $machine"
    # Snakemake writes its interpreter's path into a shell command without quotes.
    [[ $clone != *[[:space:]\'\"\`\\\$\&\;:\(\)\<\>\|\*\?\[\]\{\}\#\~\!]* ]] ||
        fail "the clone's path '$clone' has a space or a special character, which Snakemake" \
            "cannot quote; move the clone (the working directory may have them)"
}

# Prints a Python that can make an environment.
find_python() {
    local candidate version without_venv=''
    for candidate in python3.13 python3.12 python3.11 python3; do
        version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
            continue
        case $version in 3.11 | 3.12 | 3.13) ;; *) continue ;; esac
        # Debian's python3 has the module venv without python3-venv, but not ensurepip.
        if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
        without_venv=${without_venv:-$version}
    done
    if [[ -n $without_venv ]]; then
        fail "Python $without_venv has no venv here; run: sudo apt-get install python$without_venv-venv"
    fi
    fail "no Python 3.11, 3.12 or 3.13 here; run: sudo apt-get install python3 python3-venv" \
        "(Ubuntu 22.04: python3.11 python3.11-venv)"
}

# Takes lock -s (shared) or -x (exclusive) on file descriptor 9, and says so if that takes a while.
take_lock() {
    local status=0
    flock -n "$1" 9 2>/dev/null || status=$?
    # Only 1 means that another process holds it; else the file system (or the machine) has no locks.
    [[ $status == 1 ]] || return 0
    say "waiting for another command that uses or makes $environment (Ctrl-C stops this one)"
    flock "$1" 9
}

is_ready() {
    # -x follows links, so an environment whose Python was removed is made again.
    [[ -x $environment/bin/python && -r $environment/umimill.stamp ]] &&
        [[ $(<"$environment/umimill.stamp") == "$stamp" ]]
}

make_environment() {
    local python log=$environment.log
    python=$(find_python) || exit 1
    say "making $environment from $lock with $python, once; it takes about a minute and 800 MB"
    rm -rf "$environment"
    # --no-deps: a lock is complete, and pip would ask for a package that it leaves out on purpose.
    if ! "$python" -m venv "$environment" >"$log" 2>&1 ||
        ! "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
            --no-user --no-deps --require-hashes --only-binary :all: -r "$lock" >>"$log" 2>&1; then
        grep -v '^WARNING' "$log" | tail -n 5 >&2 || true
        fail "could not make $environment; the whole log is $log"
    fi
    mv "$log" "$environment/setup.log"
    # Last and by rename: a set-up that was killed has no stamp and is done again.
    printf '%s\n' "$stamp" >"$environment/umimill.stamp.new"
    mv "$environment/umimill.stamp.new" "$environment/umimill.stamp"
}

# prepare_environment NAME LOCK: makes $clone/NAME from envs/LOCK unless it is there. File descriptor 9
# stays open with a shared lock, which the command that is exec'd next keeps: no other command
# replaces an environment that is in use, or uses one that is half made.
prepare_environment() {
    check_machine
    environment=$clone/$1
    lock=$clone/envs/$2
    # The path is part of it: the entry points of an environment that was copied or moved with its
    # clone would start the Python of the old place.
    stamp="$(sha256sum <"$lock" | cut -d ' ' -f 1) $environment"
    # What a module system or another project puts here would shadow the locked packages.
    unset PYTHONHOME PYTHONPATH
    if { exec 9<>"$environment.lock"; } 2>/dev/null || { exec 9<"$environment.lock"; } 2>/dev/null; then
        take_lock -s
    fi
    if is_ready; then
        return
    fi
    [[ -w $clone ]] || fail "cannot write to $clone to make $1; use a clone of your own"
    # Released first: two commands that both turn a shared lock into an exclusive one could wait for
    # each other for ever on file systems that build these locks from byte ranges.
    flock -u 9 2>/dev/null || true
    take_lock -x
    is_ready || make_environment
    flock -s 9 2>/dev/null || true
}
