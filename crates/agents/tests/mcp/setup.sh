#!/bin/sh
# Makes the virtual environment with the official MCP SDK that the tests of `tools::mcp` start their servers from, and
# prints its interpreter on stdout; everything else goes to stderr. Does nothing when the environment already fits
# requirements.txt, so it may be called before every run.
#
# PYTHON names another interpreter than `python3`.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../../../.." && pwd)
venv=$root/.parts/mcp-venv
stamp=$venv/doran-stamp
python=${PYTHON:-python3}

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "mcp: $*"
    exit 1
}

command -v "$python" >/dev/null 2>&1 ||
    fail "\`$python\` is missing; the MCP SDK needs Python 3.10 or later (Debian, Ubuntu: apt install python3 python3-venv)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "the MCP SDK needs Python 3.10 or later and \`$python\` is $("$python" --version 2>&1); set PYTHON to a newer one"
"$python" -c 'import venv, ensurepip' >/dev/null 2>&1 ||
    fail "\`$python\` has no venv module (Debian, Ubuntu: apt install python3-venv)"

# An environment is tied to its interpreter and its place, so both are part of the stamp.
wanted="$(cat "$here/requirements.txt") $("$python" -c 'import sys; print(sys.version.split()[0], sys.base_prefix)') $venv"
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
    say "mcp: installing the MCP SDK into .parts/mcp-venv (about a minute, once)"
    rm -rf "$venv"
    mkdir -p "$root/.parts"
    "$python" -m venv "$venv" >&2 || fail "could not make a virtual environment in \`$venv\`"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r "$here/requirements.txt" >&2 ||
        fail "pip could not install \`mcp\`; is a package index reachable?"
    # Written last: an installation that was cut short has no stamp and is made again.
    printf '%s\n' "$wanted" >"$stamp"
fi

printf '%s\n' "$venv/bin/python"
