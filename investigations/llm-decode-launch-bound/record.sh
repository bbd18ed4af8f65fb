#!/usr/bin/env bash
# Decoding token by token, eager and by a CUDA graph, each recorded: record.sh BIN OUT [TOKENS], as root on a GPU host.
# What recording costs these two: ../overhead.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$1 out=$2 tokens=${3:-500}
mkdir -p "$out"
for mode in eager graph; do
    "$bin/ingero-record" --force --no-args -o "$out/$mode.igt" -- python3 "$here/decode.py" "$mode" "$tokens" 2>&1 | tee "$out/$mode.txt"
done
