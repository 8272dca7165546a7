#!/bin/sh
# Fetches the inspector of the Model Context Protocol, where there is npm, for the tests. They say themselves that they are
# skipped when it is not there. Does nothing when it is there already, so it may be called before every run.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../../../.." && pwd)
package='@modelcontextprotocol/inspector@2.12.0'
modules=$root/.parts/mcp-inspector

say() { printf '%s\n' "inspector: $*" >&2; }

command -v npm >/dev/null 2>&1 || exit 0
[ "$(cat "$modules/doran-stamp" 2>/dev/null)" != "$package" ] || exit 0
say "installing $package into .parts/mcp-inspector (110 MB, once)"
rm -rf "$modules"
mkdir -p "$modules"
if npm install --prefix "$modules" --ignore-scripts --no-audit --no-fund --silent "$package" >&2; then
    printf '%s\n' "$package" >"$modules/doran-stamp"
else
    say "npm could not install $package"
    rm -rf "$modules"
fi
