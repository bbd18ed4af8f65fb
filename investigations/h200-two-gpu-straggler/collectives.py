"""Collectives whose numbers are known: collectives.py. Each of two ranks makes 100 all-reduces of 1,000,000 floats, 50
broadcasts of 4,096 64-bit integers from rank 1, 25 all-gathers of 300,000 half floats and 10 reduce-scatters of 2 x 512 floats.
"""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "29543"
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2)
    floats = torch.ones(1_000_000, device="cuda")
    numbers = torch.zeros(4096, dtype=torch.int64, device="cuda")
    part, whole = torch.ones(300_000, dtype=torch.half, device="cuda"), torch.empty(600_000, dtype=torch.half, device="cuda")
    given, left = torch.ones(1024, device="cuda"), torch.empty(512, device="cuda")
    for _ in range(100):
        dist.all_reduce(floats)
    for _ in range(50):
        dist.broadcast(numbers, 1)
    for _ in range(25):
        dist.all_gather_into_tensor(whole, part)
    for _ in range(10):
        dist.reduce_scatter_tensor(left, given)
    torch.cuda.synchronize()
    print(f"RANK {rank} pid {os.getpid()} done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
