"""A small transformer trained on random tokens: train_transformer.py STEPS [BLOCK [ROWS]]. Prints its wall time, start-up apart.

A batch has ROWS rows of 128 tokens, 16 if not said, which leaves the GPU waiting for launches. With BLOCK above 0, each block of so many steps is told when it is done: BLOCK, the monotonic clock, and the seconds that it took.
"""

import sys
import time

import torch

steps = int(sys.argv[1])
block = int(sys.argv[2]) if len(sys.argv) > 2 else 0
rows = int(sys.argv[3]) if len(sys.argv) > 3 else 16
torch.set_num_threads(1)
torch.manual_seed(1)
layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0)
model = torch.nn.Sequential(torch.nn.Embedding(8192, 512), torch.nn.TransformerEncoder(layer, 6), torch.nn.Linear(512, 8192)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
data = torch.randint(0, 8192, (64, rows, 129)).pin_memory()


def step(i):
    batch = data[i % 64].cuda(non_blocking=True)
    with torch.autocast("cuda", torch.bfloat16):
        logits = model(batch[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 8192), batch[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


for i in range(20):
    step(i)
torch.cuda.synchronize()
start = time.time()
since = time.monotonic()
for i in range(steps):
    loss = step(i)
    if i % 50 == 49:
        loss.item()
    if block and i % block == block - 1:
        torch.cuda.synchronize()
        now = time.monotonic()
        print(f"BLOCK {now:.6f} {now - since:.6f}", flush=True)
        since = now
torch.cuda.synchronize()
print(f"STEPS {steps} in {time.time() - start:.3f} s", flush=True)
