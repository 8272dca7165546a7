#!/bin/sh
# Fetches clients for Node.js, where there is npm, for the tests of the server. They say themselves that they are skipped
# when a client is not there. Does nothing when all are there already, so it may be called before every run.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../../../.." && pwd)
packages='openai@7.53.0 ai@6.0.326 @ai-sdk/openai@3.0.139 @ai-sdk/openai-compatible@2.0.87 zod@4.6.7 @langchain/langgraph-sdk@1.12.0 @langchain/react@1.1.0 @langchain/core@1.2.13 react@19.3.1 react-dom@19.3.1 esbuild@0.28.2 playwright-core@1.65.0'
modules=$root/.parts/clients-node

say() { printf '%s\n' "clients: $*" >&2; }

command -v npm >/dev/null 2>&1 || exit 0
[ "$(cat "$modules/doran-stamp" 2>/dev/null)" != "$packages" ] || exit 0
say "installing $packages into .parts/clients-node"
rm -rf "$modules"
mkdir -p "$modules"
# shellcheck disable=SC2086 # a list of packages
if npm install --prefix "$modules" --ignore-scripts --no-audit --no-fund --silent $packages >&2; then
    printf '%s\n' "$packages" >"$modules/doran-stamp"
else
    say "npm could not install $packages"
    rm -rf "$modules"
fi
