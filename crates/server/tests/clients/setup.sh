#!/bin/sh
# Fetches the clients that the tests of the server use: a virtual environment with OpenAI's client for Python and
# schemathesis, whose interpreter is printed on stdout, and, where there is Node.js, OpenAI's client for it. Everything
# else goes to stderr. Does nothing when all of it is there already, so it may be called before every run.
#
# PYTHON names another interpreter than `python3`.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../../../.." && pwd)
venv=$root/.parts/clients-venv
stamp=$venv/doran-stamp
python=${PYTHON:-python3}

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "clients: $*"
    exit 1
}

command -v "$python" >/dev/null 2>&1 ||
    fail "\`$python\` is missing; the clients need Python 3.10 or later (Debian, Ubuntu: apt install python3 python3-venv)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "the clients need Python 3.10 or later and \`$python\` is $("$python" --version 2>&1); set PYTHON to a newer one"
"$python" -c 'import venv, ensurepip' >/dev/null 2>&1 ||
    fail "\`$python\` has no venv module (Debian, Ubuntu: apt install python3-venv)"

# An environment is tied to its interpreter and its place, so both are part of the stamp.
wanted="$(cat "$here/requirements.txt") $("$python" -c 'import sys; print(sys.version.split()[0], sys.base_prefix)') $venv"
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
    say "clients: installing the clients into .parts/clients-venv (about a minute, once)"
    rm -rf "$venv"
    mkdir -p "$root/.parts"
    "$python" -m venv "$venv" >&2 || fail "could not make a virtual environment in \`$venv\`"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r "$here/requirements.txt" >&2 ||
        fail "pip could not install \`requirements.txt\`; is a package index reachable?"
    # Written last: an installation that was cut short has no stamp and is made again.
    printf '%s\n' "$wanted" >"$stamp"
fi

# The tests for Node.js say themselves that they are skipped when this is not there.
package=openai@7.53.0
modules=$root/.parts/clients-node
if command -v npm >/dev/null 2>&1 && [ "$(cat "$modules/doran-stamp" 2>/dev/null)" != "$package" ]; then
    say "clients: installing $package into .parts/clients-node"
    rm -rf "$modules"
    mkdir -p "$modules"
    if npm install --prefix "$modules" --ignore-scripts --no-audit --no-fund --silent "$package" >&2; then
        printf '%s\n' "$package" >"$modules/doran-stamp"
    else
        say "clients: npm could not install $package"
        rm -rf "$modules"
    fi
fi

printf '%s\n' "$venv/bin/python"
