#!/usr/bin/env bash
# One training loop, slowed down three ways, each recorded: record.sh BIN OUT, as root on a GPU host.
#
#   neighbours   three busy loops of others for each CPU of the host
#   quota        the loop is in a cgroup with a quota of 40 % of one CPU
#   affinity     the loop and its four workers may use CPU 0 only, while all others are idle
#   free         none of it
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$1 out=$2
mkdir -p "$out"
record() { # NAME COMMAND...
    local name=$1
    shift
    echo "== $name"
    "$bin/ingero-record" --force --no-args -o "$out/$name.igt" -- "$@" 2>&1 | tee "$out/$name.txt"
}

record free python3 "$here/train.py" 6

neighbours=()
for _ in $(seq $((3 * $(nproc)))); do
    timeout 90 python3 -c 'while True: pass' &
    neighbours+=($!)
done
record neighbours python3 "$here/train.py" 6
kill "${neighbours[@]}"
wait "${neighbours[@]}" 2>/dev/null || true

if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    echo +cpu >/sys/fs/cgroup/cgroup.subtree_control || true
    group=/sys/fs/cgroup/train
    mkdir -p "$group"
    echo "40000 100000" >"$group/cpu.max"
else
    [ -d /sys/fs/cgroup/cpu ] || { mkdir -p /tmp/cpu && mount -t cgroup -o cpu none /tmp/cpu; }
    group=/sys/fs/cgroup/cpu/train
    [ -d /sys/fs/cgroup/cpu ] || group=/tmp/cpu/train
    mkdir -p "$group"
    echo 100000 >"$group/cpu.cfs_period_us"
    echo 40000 >"$group/cpu.cfs_quota_us"
fi
# The recorder stays outside the group, or it would be throttled too.
record quota sh -c 'echo $$ >"$0/cgroup.procs" && exec python3 "$1" 6' "$group" "$here/train.py"
cat "$group/cpu.stat" | tee "$out/quota.cpu.stat"

record affinity taskset -c 0 python3 "$here/train.py" 6 4
