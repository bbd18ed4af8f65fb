"""Two hundred training steps under PyTorch's profiler: train.py TRACE.json.gz. Prints how many steps it made."""

import sys

import torch
from torch.profiler import ProfilerActivity, profile

torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
data = torch.randn(64, 512).pin_memory()
torch.cuda.synchronize()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
    for step in range(200):
        x = data.cuda(non_blocking=True)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if step % 20 == 19:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
profiler.export_chrome_trace(sys.argv[1])
print("STEPS 200", flush=True)
