#!/usr/bin/env bash
# The same loop with and without torch.cuda.empty_cache(), recorded: record.sh BIN OUT, as root on a GPU host.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$1 out=$2
mkdir -p "$out"
for mode in keep empty; do
    "$bin/ingero-record" --force --no-args -o "$out/$mode.igt" -- python3 "$here/churn.py" "$mode" 2>&1 | tee "$out/$mode.txt"
done
