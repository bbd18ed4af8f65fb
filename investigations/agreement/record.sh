#!/usr/bin/env bash
# One run, seen by PyTorch's profiler and by the recorder: record.sh BIN OUT, as root on a GPU host.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$1 out=$2
mkdir -p "$out"
"$bin/ingero-record" --force --no-args -o "$out/host.igt" -- python3 "$here/train.py" "$out/kineto.json.gz" 2>&1 | tee "$out/run.txt"
