"""The time of one small launch, over and over: launch.py [SECONDS]. Prints the least and the median over blocks of 2,000."""

import statistics
import sys
import time

import torch

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
torch.set_num_threads(1)
x = torch.zeros(1024, device="cuda")
torch.cuda.synchronize()
blocks, until = [], time.monotonic() + seconds
while time.monotonic() < until:
    start = time.perf_counter()
    for _ in range(2000):
        x.add_(1)
    blocks.append((time.perf_counter() - start) / 2000)
    torch.cuda.synchronize()
print(f"LAUNCH least {1e6 * min(blocks):.2f} us, median {1e6 * statistics.median(blocks):.2f} us, {len(blocks)} blocks", flush=True)
