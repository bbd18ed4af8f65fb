"""Compares, call by call, what PyTorch's profiler and the recorder saw of one run: compare.py RUN.sqlite KINETO.json.gz.

RUN.sqlite is made by `ingero-convert host.igt --sqlite -o RUN.sqlite`. The profiler lists runtime calls, and driver calls that
no runtime call makes; of the recorder's calls those outermost on their thread are compared with them. Calls of one function on
one thread are matched in their order.

cuBLAS has a runtime of its own linked in, without symbols. The profiler sees its calls, since the runtime tells it; the
recorder sees the driver calls that they make, as outermost ones: these are matched with each other (`~` marks them).
"""

import collections
import gzip
import json
import sqlite3
import statistics
import sys

database, profile = sqlite3.connect(sys.argv[1]), json.load(gzip.open(sys.argv[2]))
base_ns = profile["baseTimeNanoseconds"]
theirs = collections.defaultdict(list)
for event in profile["traceEvents"]:
    if event.get("cat") in ("cuda_runtime", "cuda_driver"):
        theirs[event["name"], event["tid"]].append((base_ns + round(event["ts"] * 1000), round(event["dur"] * 1000)))
for calls in theirs.values():
    calls.sort()
MADE_BY = {"cuLaunchKernelEx": "cudaLaunchKernelExC", "cuMemAlloc_v2": "cudaMalloc", "cuMemFree_v2": "cudaFree"}
first = min(calls[0][0] for calls in theirs.values())
last = max(start + duration for calls in theirs.values() for start, duration in calls)

(began_ns,) = database.execute("SELECT min(ts_ns) FROM clock").fetchone()
(unix_ns,) = database.execute("SELECT real_ns FROM clock WHERE ts_ns = ?", (began_ns,)).fetchone()
shift = unix_ns - began_ns
probed = {name for (name,) in database.execute("SELECT DISTINCT function FROM calls")}
ours, marked = collections.defaultdict(list), set()
rows = database.execute("SELECT function, tid, ts_ns, dur_ns FROM calls WHERE depth = 0 AND \"end\" = 'returned' ORDER BY ts_ns")
for name, tid, ts_ns, dur_ns in rows:
    # Half a millisecond of doubt: the two programs read the wall clock at different moments.
    if first - 500_000 <= ts_ns + shift <= last + 500_000:
        ours[MADE_BY.get(name, name), tid].append((ts_ns + shift, dur_ns))
        marked.update({(MADE_BY[name], tid)} if name in MADE_BY else ())

print("function                     thread   profiler   recorder   start: offset   spread   duration: recorder - profiler, us")
print("                                                                    us   p5..p95       p5    median       p95")
alike, unlike, unseen = 0, [], collections.Counter()
for name, tid in sorted(theirs.keys() | ours.keys()):
    a, b = theirs.get((name, tid), []), ours.get((name, tid), [])
    if not b and name not in probed:
        unseen[name] += len(a)
        continue
    line = f"{name + ' ~' * ((name, tid) in marked):28} {tid:6} {len(a):10} {len(b):10}"
    if len(a) != len(b):
        unlike.append((name, tid, len(a), len(b)))
        print(line)
        continue
    alike += len(a)
    starts = sorted((x[0] - y[0]) / 1000 for x, y in zip(a, b))
    longer = sorted((y[1] - x[1]) / 1000 for x, y in zip(a, b))
    at = lambda values, share: values[min(len(values) - 1, int(share * len(values)))]
    print(
        f"{line} {statistics.median(starts):15.2f} {at(starts, 0.95) - at(starts, 0.05):9.2f}"
        f" {at(longer, 0.05):9.2f} {statistics.median(longer):9.2f} {at(longer, 0.95):9.2f}"
    )
print(f"\n{alike} calls are in both, one for one; counts differ for {len(unlike)} pairs of function and thread: {unlike}")
print("not probed by the recorder: " + ", ".join(f"{name} ({n})" for name, n in sorted(unseen.items())))
