"""Copies of growing size to the GPU, from pageable and from pinned memory: copies.py. Prints the rate of each size."""

import time

import torch

torch.set_num_threads(1)
device = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
pageable = torch.ones(256 << 20, dtype=torch.uint8)
pinned = torch.ones(256 << 20, dtype=torch.uint8).pin_memory()
torch.cuda.synchronize()
for name, host in ("pageable", pageable), ("pinned", pinned):
    for shift in range(16, 29, 2):
        size = 1 << shift
        count = max(4, min(64, (1 << 30) // size))
        device[:size].copy_(host[:size], non_blocking=True)
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            device[:size].copy_(host[:size], non_blocking=True)
            torch.cuda.synchronize()
        took = time.perf_counter() - start
        print(f"COPY {name} {size} B x {count}: {size * count / took / 1e9:.2f} GB/s", flush=True)
