"""What benches/convert runs: converts, measures, prints a table in Markdown."""

import datetime
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

MIXED = "benches/data/mixed.igt"
BYTES_PER_EVENT = 2.462
WORKLOAD = [sys.executable, "benches/mixed_load.py", "6"]
EVENTS = ["sched:sched_switch", "sched:sched_waking", "sched:sched_wakeup", "kmem:mm_page_alloc"]


def run(command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", **options)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}: {(done.stdout + done.stderr).strip()[-300:]}")
    return done.stdout


def measured(command, out=subprocess.DEVNULL, rounds=2):
    """CPU seconds (the least of the rounds) and MiB of a command on one CPU."""
    best, peak = None, 0
    for _ in range(rounds):
        child = subprocess.Popen(["taskset", "-c", "1", *command], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE)
        said = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise RuntimeError(f"{' '.join(command)}: exit code {child.returncode}: {said[-300:].decode(errors='replace')}")
        spent = usage.ru_utime + usage.ru_stime
        best, peak = min(best or spent, spent), max(peak, usage.ru_maxrss / 1024)
    return best, peak


def convert_in_python(text, out):
    """perf script's text as Chrome JSON, as one writes it in an afternoon: a slice for each stretch on a CPU, an instant for the rest."""
    import json

    line_form = re.compile(r"^\s*(.+?)\s+(\d+)\s+\[(\d+)\]\s+(\d+)\.(\d+):\s+(\S+):\s+(.*)$")
    switch_form = re.compile(r"prev_comm=(.*) prev_pid=(\d+) .* ==> next_comm=(.*) next_pid=(\d+) ")
    begun = {}
    with open(text, errors="replace") as lines, open(out, "w") as json_out:
        json_out.write("[")
        for line in lines:
            found = line_form.match(line)
            if not found:
                continue
            comm, tid, cpu, seconds, fraction, event, body = found.groups()
            ts = int(seconds) * 1e6 + int(fraction.ljust(9, "0")) / 1e3
            if event == "sched:sched_switch":
                switch = switch_form.search(body)
                last = begun.get(cpu)
                if last is not None and last[1] != "0":
                    entry = {"ph": "X", "name": last[0], "pid": 0, "tid": int(cpu), "ts": last[2], "dur": ts - last[2]}
                    json_out.write(json.dumps(entry) + ",\n")
                begun[cpu] = (switch.group(3), switch.group(4), ts)
            else:
                entry = {"ph": "i", "name": event, "pid": 1, "tid": int(tid), "ts": ts, "args": {"comm": comm, "text": body}}
                json_out.write(json.dumps(entry) + ",\n")
        json_out.write("{}]")


def trace_cmd(options):
    """Records the workload. Where the kernel forbids the function tracer, which is set up even for events alone, without touching that."""
    record = ["trace-cmd", "record", "-q", *options]
    try:
        run([*record, *WORKLOAD])
        return
    except RuntimeError as refusal:
        if "Operation not permitted" not in str(refusal):
            raise
    try:
        run([*record, "-d", "-k", *WORKLOAD])
    finally:
        # With -k it leaves behind what it set.
        for name, value in [("events/enable", "0"), ("options/function-trace", "1"), ("tracing_on", "1"), ("trace", "")]:
            with open(f"/sys/kernel/tracing/{name}", "w") as setting:
                setting.write(value)


def converted(millions, folder):
    """What ingero-convert takes, a row for each format."""
    ours, large = [], f"{folder}/large.igt"
    run(["large", MIXED, str(millions * 1e6 * BYTES_PER_EVENT / 1e9), large])
    count = int(re.search(r"([\d,]+) events", run(["ingero-replay", "inspect", large])).group(1).replace(",", ""))
    for name, options in [
        ("Chrome JSON", ["--chrome", "-o", "-"]),
        ("Perfetto", ["--perfetto", "-o", "-"]),
        ("Parquet", ["--parquet", f"{folder}/lake", "--force"]),
    ]:
        ours.append((f"**ingero-convert**, {name}", count, *measured(["ingero-convert", "-q", large, *options])))
    shutil.rmtree(f"{folder}/lake")
    os.remove(large)
    return ours


def main(millions, folder):
    ours, others = converted(millions, folder) if millions else [], []
    data, text = f"{folder}/perf.data", f"{folder}/perf.txt"
    options = [o for event in EVENTS for o in ("-e", event)]
    try:
        run(["perf", "record", "-q", "-a", *options, "-o", data, "--", *WORKLOAD])
        with open(text, "wb") as out:
            spent, peak = measured(["perf", "script", "-i", data], out, rounds=1)
        with open(text, "rb") as lines:
            count = sum(1 for line in lines if b": " in line)
        others.append(("perf script (text)", count, spent, peak))
        script = f"import sys; sys.path.insert(0, 'benches'); import convert; convert.convert_in_python({text!r}, {folder + '/perf.json'!r})"
        others.append(("a converter in Python (its text into Chrome JSON)", count, *measured([sys.executable, "-c", script], rounds=1)))
    except RuntimeError as e:
        print(e, file=sys.stderr)
    dat = f"{folder}/trace.dat"
    try:
        trace_cmd([*options, "-o", dat])
        with open(text, "wb") as out:
            spent, peak = measured(["trace-cmd", "report", "-i", dat], out, rounds=1)
        with open(text, "rb") as lines:
            count = sum(1 for line in lines if b": " in line)
        others.append(("trace-cmd report (text)", count, spent, peak))
    except RuntimeError as e:
        print(e, file=sys.stderr)

    cpu = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    print(f"{datetime.date.today()}, {os.cpu_count()} CPUs, {cpu.group(1) if cpu else platform.machine()}, Linux {platform.release()}, load {os.getloadavg()[0]:.1f}")
    for tool in [["perf", "--version"], ["trace-cmd", "--version"]]:
        if shutil.which(tool[0]):
            print(next(iter(subprocess.run(tool, capture_output=True, text=True).stdout.strip().splitlines()), tool[0]))
    print(f"Python {platform.python_version()}\n")
    base = ours[0][1] / ours[0][2] if ours else None
    print("| converter | events | CPU seconds | M events/s | ratio to ours to Chrome JSON | most memory, MiB |\n|---|---|---|---|---|---|")
    for name, count, spent, peak in ours + others:
        print(f"| {name} | {count:,} | {spent:.2f} | {count / spent / 1e6:.2f} | {f'{count / spent / base:.2f}' if base else ''} | {peak:.0f} |")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[2], prefix="ingero-convert-") as folder:
        main(float(sys.argv[1]), folder)
