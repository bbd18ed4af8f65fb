"""Activations of changing size, with and without torch.cuda.empty_cache() in the loop: churn.py keep|empty [STEPS]."""

import sys
import time

import torch

empty = sys.argv[1] == "empty"
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
torch.cuda.synchronize()
start = time.time()
for step in range(steps):
    x = torch.randn(256 + 64 * (step % 16), 1024, device="cuda")
    loss = model(x).square().mean()
    loss.backward()
    model.zero_grad()
    if empty:
        torch.cuda.empty_cache()
torch.cuda.synchronize()
print(f"STEPS {steps} in {time.time() - start:.3f} s, {sys.argv[1]}", flush=True)
