#!/usr/bin/env bash
# What recording costs, whole run against whole run: measure.sh BIN OUT PAIRS JOB..., as root on a GPU host. Jobs:
#
#   transformer   a training loop of 30 s and more, bound by its launches
#   large         the same with batches that keep the GPU busy
#   eager, graph  decoding token by token (../llm-decode-launch-bound)
#   dataloader    the DataLoader benchmark on four CPUs (../h200-dataloader)
#
# Runs alternate, and which side of a pair comes first alternates too, so that drift of the machine falls on both.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$1 out=$2 pairs=$3
shift 3
mkdir -p "$out"
for job in "$@"; do
    case $job in
    transformer) command=(python3 "$here/train_transformer.py" "${STEPS:-2000}") ;;
    large) command=(python3 "$here/train_transformer.py" "${STEPS:-500}" 0 512) ;;
    dataloader) command=(taskset -c 0-3 python3 "$here/../h200-dataloader/bench_dataloader.py" 4000000 workers 262144) ;;
    eager | graph) command=(python3 "$here/../llm-decode-launch-bound/decode.py" "$job" 3000) ;;
    *) echo "measure.sh: no job $job" >&2 && exit 2 ;;
    esac
    bare() { "${command[@]}" | sed "s/^/bare /"; }
    recorded() {
        "$bin/ingero-record" --force --no-args -o "$out/$job.igt" -- "${command[@]}" 2>"$out/$job.record.txt" | sed "s/^/recorded /"
    }
    for pair in $(seq "$pairs"); do
        if ((pair % 2)); then bare; recorded; else recorded; bare; fi
    done | tee "$out/$job.pairs.txt"
    tail -n 12 "$out/$job.record.txt"
done
