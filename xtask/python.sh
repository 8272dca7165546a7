#!/bin/sh
# Makes a virtual environment and prints its interpreter on stdout; everything else goes to stderr.
#
#   sh xtask/python.sh NAME REQUIREMENTS [PIP OPTION]
#
# The environment is .parts/NAME-venv and has what the file REQUIREMENTS pins. Does nothing when it already fits, so it
# may be called before every run. PYTHON names another interpreter than `python3`.
set -eu

name=$1
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
requirements=$root/$2
option=${3:-}
mkdir -p "$root/.parts"
venv=$(CDPATH='' cd -- "$root/.parts" && pwd -P)/$name-venv
stamp=$venv/doran-stamp
python=${PYTHON:-python3}

say() { printf '%s\n' "$name: $*" >&2; }
fail() {
    say "$@"
    exit 1
}

command -v "$python" >/dev/null 2>&1 ||
    fail "\`$python\` is missing; it must be 3.10 or later (Debian, Ubuntu: apt install python3 python3-venv)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "Python 3.10 or later is needed and \`$python\` is $("$python" --version 2>&1); set PYTHON to a newer one"
"$python" -c 'import venv, ensurepip' >/dev/null 2>&1 ||
    fail "\`$python\` has no venv module (Debian, Ubuntu: apt install python3-venv)"

# An environment is tied to its interpreter and its place, so both are part of the stamp.
wanted="$(cat "$requirements") $("$python" -c 'import sys; print(sys.version.split()[0], sys.base_prefix)') $venv"
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
    say "installing $2 into .parts/$name-venv (about a minute, once)"
    rm -rf "$venv"
    "$python" -m venv "$venv" >&2 || fail "could not make a virtual environment in \`$venv\`"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input ${option:+"$option"} \
        -r "$requirements" >&2 ||
        fail "pip could not install \`$2\`; is a package index reachable?"
    # Written last: an installation that was cut short has no stamp and is made again.
    printf '%s\n' "$wanted" >"$stamp"
fi

printf '%s\n' "$venv/bin/python"
