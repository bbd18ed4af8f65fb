"""Counts the calls of the probed CUDA functions with the kernel's own uprobes (tracefs), without ingero.

    count_with_ftrace.py FUNCTIONS OUT.json -- COMMAND...        (as root)

FUNCTIONS is a file with one symbol a line. The libraries are those that PyTorch maps (LIBRARIES, a list of paths with
colons between them, overrides that); each symbol gets an entry probe, whose hits the kernel counts itself
(uprobe_profile), so nothing can be lost to a full buffer.
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
    if os.environ.get("LIBRARIES"):
        return os.environ["LIBRARIES"].split(":")
    code = "import torch; torch.cuda.init(); print(open('/proc/self/maps').read())"
    maps = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    paths = {line.split(None, 5)[5] for line in maps.splitlines() if line.count("/")}
    return sorted(p for p in paths if os.path.basename(p).startswith(("libcudart.so", "libcudart-", "libcuda.so")))


def write(path, text, append=False):
    # Not open(): for appending it seeks, which tracefs refuses.
    file = os.open(f"{TRACEFS}/{path}", os.O_WRONLY | (os.O_APPEND if append else os.O_TRUNC))
    try:
        os.write(file, text.encode())
    except OSError as e:
        sys.exit(f"writing {text!r} to {path}: {e}")
    finally:
        os.close(file)


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
                write("uprobe_events", f"p:count/{name} {path}:{table[name]:#x}\n", append=True)
                write(f"events/count/{name}/enable", "1")
                probed.append(name)
    print(f"probed {len(probed)} functions of {libraries()}", flush=True)
    start = time.time()
    code = subprocess.run(command).returncode
    hits = {}
    for line in open(f"{TRACEFS}/uprobe_profile"):
        _, event, count = line.rsplit(None, 2)
        hits[event] = int(count)
    counts = {name: hits[name] for name in probed}
    for name in probed:
        write(f"events/count/{name}/enable", "0")
    write("uprobe_events", "\n")
    report = {"command": command, "exit": code, "seconds": time.time() - start, "counts": counts}
    json.dump(report, open(out, "w"), indent=1)


main()
