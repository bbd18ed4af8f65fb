#!/usr/bin/env bash
# Copies from pageable and from pinned memory, recorded: record.sh BIN OUT, as root on a GPU host.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$1 out=$2
mkdir -p "$out"
"$bin/ingero-record" --force --no-args -o "$out/run.igt" -- python3 "$here/copies.py" 2>&1 | tee "$out/run.txt"
