#!/bin/sh
# Makes the virtual environment that the peer of `./x bench engine` runs in, and prints its
# interpreter on stdout; everything else goes to stderr. Does nothing when the environment
# already fits requirements.txt, so it may be called before every run.
#
# PYTHON names another interpreter than `python3`.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
requirements=$here/requirements.txt
venv=$root/.parts/langgraph-venv
stamp=$venv/doran-stamp
python=${PYTHON:-python3}

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "bench: $*"
    exit 1
}

command -v "$python" >/dev/null 2>&1 ||
    fail "\`$python\` is missing; LangGraph is measured with Python 3.10 or later (Debian, Ubuntu: apt install python3 python3-venv)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "LangGraph needs Python 3.10 or later and \`$python\` is $("$python" --version 2>&1); set PYTHON to a newer one"
"$python" -c 'import venv, ensurepip' >/dev/null 2>&1 ||
    fail "\`$python\` has no venv module (Debian, Ubuntu: apt install python3-venv)"

# An environment is tied to its interpreter and its place, so both are part of the stamp.
wanted=$("$python" - "$requirements" "$venv" <<'PY'
import hashlib, sys
requirements, venv = sys.argv[1:]
with open(requirements, "rb") as file:
    print(hashlib.sha256(file.read()).hexdigest(), sys.version.split()[0], sys.base_prefix, venv)
PY
)

if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
    say "bench: installing LangGraph into .parts/langgraph-venv (about a minute, once)"
    rm -rf "$venv"
    mkdir -p "$root/.parts"
    "$python" -m venv "$venv" >&2 || fail "could not make a virtual environment in \`$venv\`"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
        -r "$requirements" >&2 || fail "pip could not install \`bench/peer/requirements.txt\`; is a package index reachable?"
    # Written last: an installation that was cut short has no stamp and is made again.
    printf '%s\n' "$wanted" >"$stamp"
fi

printf '%s\n' "$venv/bin/python"
