#!/usr/bin/env bash
# What a small launch costs bare, with one layer of CUDA probed and with both: layers.sh BIN OUT [ROUNDS], as root on a GPU host.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$1 out=$2 rounds=${3:-2}
mkdir -p "$out"
for _ in $(seq "$rounds"); do
    for layers in none driver runtime runtime,driver; do
        command=(python3 "$here/launch.py")
        [ $layers = none ] || command=("$bin/ingero-record" --force --no-args -q --layers "$layers" -o "$out/launch.igt" -- "${command[@]}")
        "${command[@]}" | sed "s/^/$layers: /"
    done
done | tee "$out/layers.txt"
