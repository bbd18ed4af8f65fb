"""What benches/peers runs: records, stores, measures, prints a table in Markdown.

Every call records with ours first, so that each ratio is of one run, however the peers are spread over calls.
"""

import argparse
import datetime
import json
import os
import platform
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

import igt
import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import zstandard

WORKLOADS = {
    "messaging": ["perf", "bench", "sched", "messaging", "-l", "2000"],
    "mixed": [sys.executable, "benches/mixed_load.py", "6"],
}
SCRIPT = (
    "tracepoint:sched:sched_switch { printf(\"%llu %d %d %d %d %s %d %d %s\\n\", nsecs, cpu, args->prev_pid, args->prev_prio, "
    "args->prev_state, args->prev_comm, args->next_pid, args->next_prio, args->next_comm); }"
)


class Row:
    """A line of the table: events, bytes, lost events, seconds to encode and to decode; None where there is no such figure."""

    def __init__(self, name, events, size, lost=None, encode=None, decode=None, note=""):
        self.name, self.events, self.size, self.lost = name, events, size, lost
        self.encode, self.decode, self.note = encode, decode, note


def run(command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def timed(work, rounds=3):
    """What it returns, and the least seconds of processor time that it took."""
    best = None
    for _ in range(rounds):
        begun = time.process_time()
        result = work()
        spent = time.process_time() - begun
        best = spent if best is None else min(best, spent)
    return result, best


def count_lines(command, pattern):
    """Lines of a program's output with the pattern in them, events that it says were lost, and the seconds of processor time that it took."""
    begun, count, lost = of_children(), 0, 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        for line in program.stdout:
            count += pattern in line
            if b"PERF_RECORD_LOST" in line:
                lost += sum(int(n) for n in re.findall(rb" lost (\d+)", line))
    return count, lost, of_children() - begun


def of_children():
    """Seconds of processor time of the programs that were run and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def packed(path, level):
    """Bytes of a file, and what zstd makes of it."""
    with open(path, "rb") as file:
        data = file.read()
    return len(zstandard.ZstdCompressor(level=level, threads=0).compress(data))


# ---- recorders ----


def with_ingero(workload, folder):
    file = f"{folder}/run.igt"
    only = ["--only", "sched_switch"] if "--only" in run(["ingero-record", "--help"]).stdout else []
    run(["ingero-record", "--quiet", "--output", file, *only, "--", *workload])
    recode = json.loads(run(["recode", file, "sched_switch"]).stdout)
    recording = igt.open(file)
    has_losses = any(kind["name"] == "loss" for kind in recording.kinds.values())
    losses = recording.events("loss")["count"] if has_losses else []
    lost = sum(int(n) for n in losses if n != igt.UNKNOWN)
    if only:
        note, size = "the file as recorded", os.path.getsize(file)
    else:
        note, size = "all kinds recorded, all but switches left out afterwards", recode["bytes"]
    rows = [Row("**ingero**, whole file", recode["rows"], size, lost, recode["encode_s"], recode["decode_s"], note)]
    return recording, rows


def with_perf(workload, folder):
    rows = []
    for name, options in [("perf record", []), ("perf record -z", ["-z"])]:
        file = f"{folder}/perf.data"
        run(["perf", "record", "-q", "-a", "-e", "sched:sched_switch", *options, "-o", file, "--", *workload])
        events, lost, decode = count_lines(["perf", "script", "--show-lost-events", "-i", file], b"sched:sched_switch")
        rows.append(Row(name, events, os.path.getsize(file), lost, None, decode))
        if not options:
            rows.append(Row("perf record, zstd -3", events, packed(file, 3), lost, None, None))
            rows.append(Row("perf record, zstd -19", events, packed(file, 19), lost, None, None))
        os.remove(file)
    return rows


def trace_cmd(*arguments):
    """Runs trace-cmd record. Where the kernel forbids its function tracer, which it wants to set up even for events alone, without touching that."""
    command = ["trace-cmd", "record", "-q", "-e", "sched_switch"]
    try:
        return run([*command, *arguments])
    except SystemExit as refusal:
        if "Operation not permitted" not in str(refusal):
            raise
    try:
        return run([*command, "-d", "-k", *arguments])
    finally:
        # With -k it leaves behind what it set.
        for name, value in [("events/enable", "0"), ("options/function-trace", "1"), ("tracing_on", "1"), ("trace", "")]:
            with open(f"/sys/kernel/tracing/{name}", "w") as setting:
                setting.write(value)


def with_trace_cmd(workload, folder):
    """Its files hold the formats of all events and the kernel's symbols, 1 MB raw."""
    rows = []
    for name, compression in [("tracefs by trace-cmd, raw", "none"), ("tracefs by trace-cmd, zstd", "zstd")]:
        file = f"{folder}/trace.dat"
        said = trace_cmd("--compression", compression, "-o", file, "--", *workload)
        lost = sum(int(n) for n in re.findall(r"dropped events: (\d+)", said.stdout + said.stderr))
        events, _, decode = count_lines(["trace-cmd", "report", "-i", file], b"sched_switch:")
        rows.append(Row(name, events, os.path.getsize(file), lost, None, decode))
        os.remove(file)
    return rows


def with_bpftrace(workload, folder):
    file = f"{folder}/bpftrace.txt"
    with open(f"{folder}/bpftrace.err", "w+") as said, open(file, "w") as out:
        tracer = subprocess.Popen(["bpftrace", "-q", "-e", SCRIPT], stdin=subprocess.DEVNULL, stdout=out, stderr=said)
        while os.path.getsize(file) == 0 and tracer.poll() is None:
            time.sleep(0.05)
        run(workload)
        tracer.send_signal(2)
        tracer.wait(60)
        said.seek(0)
        text = said.read()
    with open(file, errors="replace") as lines:
        text += "".join(line for line in lines if line.startswith("Lost "))
    lost = sum(int(n) for n in re.findall(r"Lost (\d+) events", text))
    with open(file, "rb") as lines:
        events = sum(1 for line in lines if line[:1].isdigit())
    return [
        Row("bpftrace, text", events, os.path.getsize(file), lost),
        Row("bpftrace, text, zstd -3", events, packed(file, 3), lost),
    ]


# ---- stores for the events of our recording ----


def switches(recording):
    """The events as a table of plain columns, in the order of their times."""
    words = recording.events("sched_switch")
    pid = np.array([tid for _, tid, _ in recording.tasks], np.int64)
    names = {}
    named = recording.events("task_name")
    for task, name in zip(named["task"].tolist(), named["name"].tolist()):
        names[task] = recording.strings[name]
    comm = np.array([names.get(n, "") for n in range(len(recording.tasks))], object)
    plain = {"ts_ns": words["ts_ns"].astype(np.int64), "cpu": words["cpu"].astype(np.int32)}
    for side in ("prev", "next"):
        plain[f"{side}_pid"] = pid[words[side]].astype(np.int32)
        plain[f"{side}_comm"] = comm[words[side]]
        plain[f"{side}_prio"] = words[f"{side}_prio"].astype(np.int64).astype(np.int32)
    plain["prev_state"] = words["prev_state"].astype(np.int32)
    return plain


def as_sqlite(plain, folder):
    rows = list(zip(*(plain[c].tolist() for c in ("ts_ns", "cpu", "prev_pid", "prev_prio", "prev_state", "next_pid", "next_prio"))))
    file = f"{folder}/events.sqlite"

    def encode():
        if os.path.exists(file):
            os.remove(file)
        with sqlite3.connect(file) as base:
            base.execute("CREATE TABLE switches (ts INTEGER, cpu INTEGER, prev INTEGER, prev_prio INTEGER, prev_state INTEGER, next INTEGER, next_prio INTEGER)")
            base.executemany("INSERT INTO switches VALUES (?,?,?,?,?,?,?)", rows)
        base.close()

    def decode():
        with sqlite3.connect(file) as base:
            return len(base.execute("SELECT * FROM switches").fetchall())

    _, encoded = timed(encode)
    count, decoded = timed(decode)
    assert count == len(rows)
    return [Row("SQLite, numbers alone, no index", count, os.path.getsize(file), None, encoded, decoded)]


def as_arrow(plain, folder):
    table = arrow.table({name: arrow.array(column) for name, column in plain.items()})
    order = np.lexsort((plain["ts_ns"], plain["cpu"]))
    by_cpu = table.take(arrow.array(order))
    count, out = len(order), []
    file = f"{folder}/events.parquet"
    best = dict(
        compression="zstd", compression_level=19, use_dictionary=["cpu", "prev_pid", "prev_comm", "prev_prio", "prev_state", "next_pid", "next_comm", "next_prio"],
        column_encoding={"ts_ns": "DELTA_BINARY_PACKED"}, write_statistics=False, version="2.6", row_group_size=1 << 20, data_page_size=1 << 22,
    )  # fmt: skip
    for name, rows, options in [
        ("Parquet, zstd -3", table, dict(compression="zstd", compression_level=3)),
        ("Parquet, best: by CPU, delta, zstd -19", by_cpu, best),
    ]:
        _, encoded = timed(lambda: parquet.write_table(rows, file, **options))
        back, decoded = timed(lambda: parquet.read_table(file, use_threads=False))
        assert back.num_rows == count
        out.append(Row(name, count, os.path.getsize(file), None, encoded, decoded))
    file = f"{folder}/events.arrow"

    def encode():
        with arrow.ipc.new_file(file, table.schema, options=arrow.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table)

    _, encoded = timed(encode)
    _, decoded = timed(lambda: arrow.ipc.open_file(file).read_all())
    return [*out, Row("Arrow IPC, zstd", count, os.path.getsize(file), None, encoded, decoded)]


def varints(numbers):
    """Protocol buffers' varints of an array, one after another."""
    numbers = np.asarray(numbers).astype(np.uint64)
    groups = numbers[:, None] >> (np.arange(10, dtype=np.uint64) * np.uint64(7))
    more = groups[:, 1:] > 0
    lengths = 1 + more.sum(axis=1)
    data = (groups & np.uint64(127)).astype(np.uint8)
    data[:, :9][more] |= 128
    return data[np.arange(10) < lengths[:, None]].tobytes()


def field(number, data):
    """A field of bytes."""
    return varints([number << 3 | 2]) + varints([len(data)]) + data


def as_perfetto(plain, folder):
    """FtraceEventBundle.CompactSched: a bundle for each CPU and quarter of a second. What left a CPU is not in it but for its state."""

    def encode():
        out = []
        for cpu in np.unique(plain["cpu"]):
            of_cpu = np.flatnonzero(plain["cpu"] == cpu)
            periods = plain["ts_ns"][of_cpu] // 250_000_000
            for rows in np.split(of_cpu, np.flatnonzero(np.diff(periods)) + 1):
                names, places = np.unique(plain["next_comm"][rows].astype(str), return_inverse=True)
                compact = b"".join(field(5, name.encode()) for name in names)
                compact += field(1, varints(np.diff(plain["ts_ns"][rows], prepend=0)))
                compact += field(2, varints(plain["prev_state"][rows])) + field(3, varints(plain["next_pid"][rows]))
                compact += field(4, varints(plain["next_prio"][rows])) + field(6, varints(places))
                out.append(field(1, field(1, varints([1 << 3]) + varints([cpu]) + field(4, compact))))
        return b"".join(out)

    data, encoded = timed(encode)
    count, out = len(plain["ts_ns"]), []
    note = "drops the names, ids and priorities of who leaves; decoded by nobody here"
    out.append(Row("Perfetto compact_sched", count, len(data), None, encoded, None, note))
    small, more = timed(lambda: zstandard.ZstdCompressor(level=3).compress(data))
    with open(f"{folder}/compact.pftrace", "wb") as file:
        file.write(data)
    return [*out, Row("Perfetto compact_sched, zstd -3", count, len(small), None, encoded + more, None, "the same")]


def stores(plain, folder):
    return as_sqlite(plain, folder) + as_arrow(plain, folder) + as_perfetto(plain, folder)


PARTS = {"perf": with_perf, "tracefs": with_trace_cmd, "bpftrace": with_bpftrace, "stores": stores}

# ---- the table ----


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    return f"{os.cpu_count()} CPUs ({model}), Linux {platform.release()}"


def versions():
    lines = [first_line([tool, "--version"]) for tool in ("perf", "bpftrace")]
    said = subprocess.run(["trace-cmd", "-V"], capture_output=True, text=True)
    lines += re.findall(r"trace-cmd version [\d.]+", said.stdout + said.stderr)
    return [*lines, f"SQLite {sqlite3.sqlite_version}", f"pyarrow {arrow.__version__}", f"zstandard {zstandard.__version__}"]


def first_line(command):
    done = subprocess.run(command, capture_output=True, text=True)
    text = (done.stdout + done.stderr).strip()
    return text.splitlines()[0] if text else "?"


def measure(workload, parts):
    """One call: ours, and what of the others was asked for."""
    folder = tempfile.mkdtemp(prefix="peers-")
    refused = []
    try:
        recording, rows = with_ingero(WORKLOADS[workload], folder)
        for part in parts:
            try:
                rows += PARTS[part](switches(recording) if part == "stores" else WORKLOADS[workload], folder)
            except SystemExit as refusal:  # a kernel may forbid one of them
                refused.append(f"{part}: {refusal}")
                print(f"Not measured: {refusal}\n", file=sys.stderr)
    finally:
        shutil.rmtree(folder)
    when = f"{datetime.date.today()}, {machine()}, load {os.getloadavg()[0]:.1f}"
    return {"workload": workload, "when": when, "versions": versions(), "rows": [vars(row) for row in rows], "refused": refused}


def shown(value, form):
    return "–" if value is None else form.format(value)


def line(row, ours):
    cells = [row["name"], f"{row['events']:,}", shown(row["lost"], "{:,}")]
    for what, form, factor in [("size", "{:.2f}", 1), ("encode", "{:.0f}", 1e9), ("decode", "{:.0f}", 1e9)]:
        value = row[what]
        each = value / max(row["events"], 1) if value is not None else None
        cells += [shown(each and each * factor, form), shown(each and each / (ours[what] / ours["events"]), "{:.2f}")]
    return "| " + " | ".join([*cells, row["note"]]) + " |"


def table(workload, calls):
    """The calls of one workload; each line's ratios are to what was recorded with ours in its own call."""
    command = " ".join(os.path.basename(w) if w == sys.executable else w for w in WORKLOADS[workload])
    lines = [f"### {workload}: `{command}`", ""]
    lines += [
        "| store | switches | lost | bytes each | × ours | encode ns each | × ours | decode ns each | × ours | |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for number, call in enumerate(calls):
        ours, *others = call["rows"]
        lines += [line(row, ours) for row in ([ours] if number == 0 else []) + others]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="benches/peers", description="Records the same work with several recorders, stores it in several formats, and compares.")
    parser.add_argument("workload", nargs="*", help="what to record (all)")
    parser.add_argument("--only", metavar="PART,…", default=",".join(PARTS), help=f"peers to measure beside ours: {', '.join(PARTS)} (all)")
    parser.add_argument("--save", metavar="DIR", help="leave the figures of this call there; with figures of earlier calls they make one table")
    args = parser.parse_args()
    parts = args.only.split(",")
    for unknown in set(args.workload) - set(WORKLOADS):
        parser.error(f"{unknown}: there are {', '.join(WORKLOADS)}")
    for unknown in set(parts) - set(PARTS):
        parser.error(f"--only {unknown}: there are {', '.join(PARTS)}")
    earlier = []
    if args.save:
        os.makedirs(args.save, exist_ok=True)
        for name in sorted(os.listdir(args.save)):
            with open(f"{args.save}/{name}") as file:
                earlier.append(json.load(file))
    for workload in args.workload or WORKLOADS:
        call = measure(workload, parts)
        earlier.append(call)
        if args.save:
            with open(f"{args.save}/{len(earlier):03}-{workload}-{'-'.join(parts)}.json", "w") as file:
                json.dump(call, file, indent=1)
    for when in sorted({call["when"] for call in earlier}):
        print(when)
    print(", ".join(sorted({version for call in earlier for version in call["versions"]})), end="\n\n")
    for workload in WORKLOADS:
        calls = [call for call in earlier if call["workload"] == workload]
        if calls:
            print(table(workload, calls), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
