#!/usr/bin/env bash
# Two ranks, one slowed down from the middle on, recorded: record.sh BIN OUT, as root on a host with two GPUs.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$1 out=$2
mkdir -p "$out"
nvidia-smi --query-gpu=index,name,driver_version --format=csv,noheader | tee "$out/host.txt"
"$bin/ingero-record" --force --no-args -o "$out/run.igt" -- python3 "$here/ddp.py" 600 2>&1 | tee "$out/run.txt"
"$bin/ingero-record" --force --no-args -o "$out/collectives.igt" -- python3 "$here/collectives.py" 2>&1 | tee "$out/collectives.txt"
echo "== the straggler's run alone, for its own times"
python3 "$here/ddp.py" 600 | tee "$out/bare.txt"
