"""Counts the calls of the probed CUDA functions with the kernel's own uprobes (tracefs), without ingero.

    count_with_ftrace.py FUNCTIONS OUT.json -- COMMAND...        (as root)

FUNCTIONS is a file with one symbol a line. Every library that COMMAND maps whose name begins with libcudart.so or
libcuda.so is found by a first run of COMMAND's interpreter under the loader's eyes (see `libraries`); each symbol
gets an entry probe with a histogram, so nothing can be lost to a full buffer.
"""

import json
import os
import struct
import subprocess
import sys
import time

TRACEFS = "/sys/kernel/tracing"


def symbols(path):
    """File offsets of the functions in a 64-bit ELF file's dynamic symbol table."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:5] == b"\x7fELF\x02", path
    shoff, = struct.unpack_from("<Q", data, 0x28)
    phoff, = struct.unpack_from("<Q", data, 0x20)
    shentsize, shnum = struct.unpack_from("<HH", data, 0x3A)
    phentsize, phnum = struct.unpack_from("<HH", data, 0x36)
    loads = []
    for i in range(phnum):
        kind, _, offset, vaddr, _, filesz = struct.unpack_from("<IIQQQQ", data, phoff + i * phentsize)
        if kind == 1:
            loads.append((vaddr, offset, filesz))
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + i * shentsize) for i in range(shnum)]
    found = {}
    for s in sections:
        if s[1] != 11:  # SHT_DYNSYM
            continue
        strings = sections[s[6]][4]
        for at in range(s[4], s[4] + s[5], 24):
            name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, at)
            if info & 15 == 2 and section != 0:
                end = data.index(b"\0", strings + name)
                for vaddr, offset, size in loads:
                    if vaddr <= value < vaddr + size:
                        found[data[strings + name:end].decode()] = value - vaddr + offset
    return found


def libraries():
    """Paths of the CUDA libraries that PyTorch maps here."""
    code = "import torch; torch.cuda.init(); print(open('/proc/self/maps').read())"
    maps = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    paths = {line.split(None, 5)[5] for line in maps.splitlines() if line.count("/")}
    return sorted(p for p in paths if os.path.basename(p).startswith(("libcudart.so", "libcudart-", "libcuda.so")))


def write(path, text, mode="w"):
    with open(f"{TRACEFS}/{path}", mode) as f:
        f.write(text)


def main():
    names, out, dashes, *command = sys.argv[1:]
    assert dashes == "--"
    wanted = open(names).read().split()
    if not os.path.exists(f"{TRACEFS}/uprobe_events"):
        subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACEFS], check=True)
    probed, addresses = [], set()
    for path in libraries():
        table = symbols(path)
        for name in wanted:
            # Aliases at one address are one function.
            if name in table and (path, table[name]) not in addresses:
                addresses.add((path, table[name]))
                write("uprobe_events", f"p:count/{name} {path}:{table[name]:#x}\n", "a")
                write(f"events/count/{name}/trigger", "hist:keys=common_pid\n")
                write(f"events/count/{name}/enable", "1")
                probed.append(name)
    print(f"probed {len(probed)} functions of {libraries()}", flush=True)
    start = time.time()
    code = subprocess.run(command).returncode
    counts = {}
    for name in probed:
        hist = open(f"{TRACEFS}/events/count/{name}/hist").read()
        total = [line for line in hist.splitlines() if line.strip().startswith("Hits:")]
        counts[name] = int(total[0].split(":")[1])
    for name in probed:
        write(f"events/count/{name}/enable", "0")
        write(f"events/count/{name}/trigger", "!hist:keys=common_pid\n")
    write("uprobe_events", "")
    report = {"command": command, "exit": code, "seconds": time.time() - start, "counts": counts}
    json.dump(report, open(out, "w"), indent=1)


main()
