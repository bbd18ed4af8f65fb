"""Data-parallel training on two GPUs whose second rank is slow on purpose in the second half: ddp.py [STEPS].

From the middle on, rank 1 spends 8 ms more on the CPU in each step, as a rank with a slower data source would.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def train(rank, steps):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "29541"
    torch.set_num_threads(1)
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2)
    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(6)]).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    x = torch.randn(512, 2048, device="cuda")
    times = []
    for step in range(steps):
        start = time.time()
        if rank == 1 and step >= steps // 2:
            busy = time.perf_counter() + 0.008
            while time.perf_counter() < busy:
                pass
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if step % 10 == 9:
            torch.cuda.synchronize()
        times.append(time.time() - start)
    torch.cuda.synchronize()
    half = steps // 2
    print(f"RANK {rank}: {1e3 * sum(times[10:half]) / (half - 10):.2f} ms a step, then {1e3 * sum(times[half:]) / half:.2f} ms", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(train, (int(sys.argv[1]) if len(sys.argv) > 1 else 600,), nprocs=2)
