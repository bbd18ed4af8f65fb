"""The DataLoader benchmark and what is advised against its slowness: remedies.py CASE [ROWS [BATCH]].

Cases: direct, loader, workers (the benchmark's own three), and of the last
    preshuffled   one permutation, batches sliced from it, no DataLoader
    two           two workers instead of four
    persistent    persistent_workers, two epochs, of which the second is timed
    prefetch      prefetch_factor 8
    getitems      a dataset with __getitems__, which fetches a batch in one go
Prints the time of one pass over the data.
"""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

case = sys.argv[1]
rows = int(sys.argv[2]) if len(sys.argv) > 2 else 7_000_000
batch = int(sys.argv[3]) if len(sys.argv) > 3 else 1_048_576
X = torch.randn(rows, 100)
model = torch.nn.Sequential(
    torch.nn.Linear(100, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
).cuda()
model(X[:1024].cuda())
torch.cuda.synchronize()


class Batched(Dataset):
    """Fetches the rows of a batch with one index operation."""

    def __len__(self):
        return rows

    def __getitem__(self, index):
        return X[index]

    def __getitems__(self, indices):
        return X[torch.tensor(indices)]


def preshuffled():
    order = torch.randperm(rows)
    for i in range(0, rows, batch):
        yield X[order[i : i + batch]]


def loader(data=X, workers=4, **more):
    return DataLoader(data, batch_size=batch, shuffle=True, num_workers=workers, pin_memory=workers > 0, **more)


epochs = 1
if case == "direct":
    batches = [X[i : i + batch] for i in range(0, rows, batch)]
elif case == "loader":
    batches = loader(workers=0)
elif case == "workers":
    batches = loader()
elif case == "preshuffled":
    batches = None
elif case == "two":
    batches = loader(workers=2)
elif case == "persistent":
    batches, epochs = loader(persistent_workers=True), 2
elif case == "prefetch":
    batches = loader(prefetch_factor=8)
elif case == "getitems":
    batches = loader(Batched(), collate_fn=lambda rows: rows)
else:
    sys.exit(f"no case {case}")

for _ in range(epochs):
    start = time.time()
    with torch.no_grad():
        for b in preshuffled() if batches is None else batches:
            model(b.cuda())
    torch.cuda.synchronize()
    took = time.time() - start
print(f"BENCH {case} {took:.3f} s rows={rows} batch={batch}", flush=True)
