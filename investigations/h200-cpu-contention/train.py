"""A training loop that prepares each batch on the CPU, in the thread that launches: train.py [SECONDS [WORKERS]].

Without workers a step is 2 ms of Python and NumPy (crop, flip, normalise), a copy, and a forward and a backward pass. With
workers, a DataLoader's processes prepare the batches and the main thread only copies and launches.
"""

import sys
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 6.0
workers = int(sys.argv[2]) if len(sys.argv) > 2 else 0
torch.set_num_threads(1)
rng = np.random.default_rng(1)
images = rng.integers(0, 255, (64, 3, 256, 256), dtype=np.uint8)


def prepare(index):
    image = images[index % 64, :, 16:240, 16:240]
    if index % 2:
        image = image[:, :, ::-1]
    return torch.from_numpy((image.astype(np.float32) - 127.5) / 127.5)


class Images(Dataset):
    def __len__(self):
        return 10_000_000

    def __getitem__(self, index):
        return prepare(index)


model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 32, 7, 4), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 5, 4), torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(1024, 10),
).cuda()
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
batch = 8
if workers:
    batches = iter(DataLoader(Images(), batch_size=batch, num_workers=workers, pin_memory=True))
else:
    batches = (torch.stack([prepare(step * batch + i) for i in range(batch)]) for step in range(10**9))
steps, start = 0, time.time()
while time.time() - start < seconds:
    x = next(batches).cuda(non_blocking=True)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    steps += 1
torch.cuda.synchronize()
print(f"STEPS {steps} in {time.time() - start:.2f} s", flush=True)
