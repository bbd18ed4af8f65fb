"""mixed_load.py [SECONDS]: a load of several kinds at once: four processes that compress, two threads that hand one byte back and forth, and
one process that starts programs."""

import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
import zlib


def compress(seed, until):
    dice = random.Random(seed)
    rounds = 0
    while time.monotonic() < until:
        zlib.compress(os.urandom(dice.randrange(1_000, 60_000)), 1)
        rounds += 1
        if rounds % 3 == 0:
            time.sleep(dice.random() * 0.002)
        if rounds % 7 == 0:
            bytearray(dice.randrange(1, 4) << 20)  # pages that are touched and given back


def hand_back_and_forth(until):
    (here_in, there_out), (there_in, here_out) = os.pipe(), os.pipe()

    def echo():
        while byte := os.read(there_in, 1):
            os.write(there_out, byte)

    other = threading.Thread(target=echo)
    other.start()
    while time.monotonic() < until:
        os.write(here_out, b"x")
        os.read(here_in, 1)
    os.close(here_out)
    other.join()


def start_programs(until):
    while time.monotonic() < until:
        subprocess.run(["/bin/true"], check=True)


if __name__ == "__main__":
    until = time.monotonic() + float(sys.argv[1] if len(sys.argv) > 1 else 6)
    jobs = [(compress, (seed, until)) for seed in range(4)] + [(hand_back_and_forth, (until,)), (start_programs, (until,))]
    processes = [multiprocessing.Process(target=job, args=args) for job, args in jobs]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
