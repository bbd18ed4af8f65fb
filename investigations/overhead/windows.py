"""What recording costs one running job: windows.py BIN OUT.igt ROUNDS COMMAND...

The job prints "BLOCK CLOCK SECONDS" for each block of equal work. The recorder attaches to it, stays for three seconds and
detaches, again and again, with both layers of CUDA probed, with the runtime's alone and with the driver's alone. A window's
cost is the median time of a block in it over the median of the blocks between the window before and it, when nothing is
probed: both sides are of one process, some seconds apart.
"""

import statistics
import subprocess
import sys
import threading
import time

binary, out, rounds, command = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
job = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
blocks = []


def listen():
    for line in job.stdout:
        word, *rest = line.split()
        if word == "BLOCK":
            blocks.append((float(rest[0]), float(rest[1])))


threading.Thread(target=listen, daemon=True).start()
while len(blocks) < 20:
    if job.poll() is not None:
        sys.exit(f"the job ended with {job.returncode} before the first window")
    time.sleep(0.1)

windows = []
for _ in range(rounds):
    for layers in "runtime,driver", "runtime", "driver":
        free = time.monotonic()
        time.sleep(2.5)
        begin = time.monotonic()
        made = subprocess.run(
            [f"{binary}/ingero-record", "--force", "--no-args", "-q", "--layers", layers, "-o", out, "-d", "3s", "-p", str(job.pid)],
            capture_output=True, text=True,
        )
        end = time.monotonic()
        if made.returncode:
            sys.exit(f"ingero-record ended with {made.returncode}: {made.stderr}")
        # It is attached for three seconds, and detached at most 0.8 s before it ends.
        windows.append((layers, (free + 0.2, begin), (end - 2.8, end - 0.8)))
job.kill()


def median(window):
    inside = [took for at, took in blocks if window[0] <= at - took and at <= window[1]]
    return statistics.median(inside) if inside else float("nan")


for layers in "runtime,driver", "runtime", "driver":
    bare = [median(free) for name, free, _ in windows if name == layers]
    ratios = [median(held) / alone for (name, _, held), alone in zip([w for w in windows if w[0] == layers], bare)]
    print(
        f"WINDOWS {layers}: {len(ratios)} pairs, a block alone {1e3 * min(bare):.2f} to {1e3 * max(bare):.2f} ms, "
        f"recorded over alone: median {statistics.median(ratios):.4f}, {min(ratios):.4f} to {max(ratios):.4f}",
        flush=True,
    )
