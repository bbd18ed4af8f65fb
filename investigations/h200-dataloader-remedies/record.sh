#!/usr/bin/env bash
# The DataLoader benchmark at its full size and what is advised against its slowness, each case recorded on four CPUs and then run by
# itself again and again: record.sh BIN OUT [ROUNDS [CASE...]], as root on a GPU host. A round of all takes three minutes. Without page
# allocations and faults, which would be most of the files. BIN - records nothing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$1 out=$2 rounds=${3:-3}
cases=(direct loader workers preshuffled two persistent prefetch getitems)
(($# > 3)) && cases=("${@:4}")
mkdir -p "$out"
run() { taskset -c 0-3 python3 "$here/remedies.py" "$1"; }
for case in "${cases[@]}"; do
    [ "$bin" != - ] || break
    "$bin/ingero-record" --force --no-args --no mm_page_alloc,page_fault_user -o "$out/$case.igt" -- \
        taskset -c 0-3 python3 "$here/remedies.py" "$case" 2>&1 | tee "$out/$case.txt"
done
# The cases take turns, so that drift of the machine falls on all of them.
for round in $(seq "$rounds"); do
    for case in "${cases[@]}"; do
        run "$case" | sed "s/^/round $round $case: /"
    done
done | tee "$out/rounds.txt"
