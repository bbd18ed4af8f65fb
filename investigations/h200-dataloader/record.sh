#!/usr/bin/env bash
# Records the DataLoader benchmark on a GPU host and counts its CUDA calls a second way. As root:
#
#   record.sh BIN OUT        BIN holds ingero-record, OUT takes the recordings and the counts
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$1 out=$2
mkdir -p "$out"
bench=(taskset -c 0-3 python3 "$here/bench_dataloader.py" 4000000 direct,workers 262144)

uname -r | tee "$out/host.txt"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee -a "$out/host.txt"
python3 -c 'import torch; print("torch", torch.__version__, "cuda", torch.version.cuda)' | tee -a "$out/host.txt"

# Without command lines: whatever else runs on the host may carry secrets in its own.
# Both at once: how often the pinned-memory cache allocates depends on timing, so two runs differ by a call or two.
echo "== recorded, and counted by ftrace"
grep -oE '"cu(da)?[A-Z][A-Za-z0-9_]+"' "$here/../../format/src/catalog/table.rs" | tr -d '"' | sort -u >"$out/functions.txt"
python3 "$here/count_with_ftrace.py" "$out/functions.txt" "$out/counted.json" -- \
    "$bin/ingero-record" --force --no-args -o "$out/run.igt" -- "${bench[@]}" 2>&1 | tee "$out/recorded.txt"

echo "== neither, for the benchmark's own times"
"${bench[@]}" | tee "$out/bare.txt"

# The benchmark at its full size, recorded without page allocations and faults (they would be most of the file), and its times.
full=(python3 "$here/bench_dataloader.py" 7000000)
echo "== full size, recorded, four CPUs and all"
for cpus in 4 16; do
    "$bin/ingero-record" --force --no-args --no mm_page_alloc,page_fault_user -o "$out/full-$cpus.igt" -- \
        taskset -c "0-$((cpus - 1))" "${full[@]}" direct,workers,loader 2>&1 | tee "$out/full-$cpus.txt"
done
echo "== full size, alone, again and again"
for cpus in 4 16; do
    taskset -c "0-$((cpus - 1))" "${full[@]}" direct,direct,direct,workers,workers,workers,loader,loader | tee "$out/bare-$cpus.txt"
done
