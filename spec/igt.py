"""Reads .igt recordings, version 1, in Python: written from igt.md alone, to prove that this is enough.

    import igt
    run = igt.open("run.igt")
    run.events("sched_switch")       # {"ts_ns": array, "cpu": array, "prev": array, ...}: 64-bit words, by time
    run.to_polars("call")            # or to_pandas: names instead of ids, null instead of "not known"

Needs numpy and zstandard; pcodec for what `ingero-replay compact` wrote; with google_crc32c all CRCs are checked, without it none. What
cannot be read is passed over and stands in `run.damage`. `igt.py FILE` prints dictionaries and the CRC of each decoded column, as JSON.
"""
import builtins, json, os, struct, sys
import numpy as np
import zstandard
try: from google_crc32c import value as crc32c
except ImportError: crc32c = None

UNKNOWN = np.uint64(2**64 - 1)
FILE_MAGIC, CHUNK_MAGIC = b"\x89IGT\r\n\x1a\n", b"\xc9igt"
SCHEMA, META, STRINGS, TASKS, FUNCTIONS, BLOCK, INDEX, FOOTER = range(1, 9)
CONST, OFFSET, RISE, STEP, DICT, FOLLOW, RUNS, RECALL = range(8)
TASK, STRING, FUNCTION, SIGNED, ENUM = 4, 5, 6, 8, 11  # units
LAYERS = dict(enumerate("runtime driver graph nccl nvtx".split(), 1))
CLASSES = dict(enumerate("launch copy fill alloc free sync event other collective graph device".split(), 1))
MAX_ROWS, MAX_COLUMNS, MAX_PAYLOAD = 262144, 64, 67108864

class IgtError(Exception): pass

def insist(holds, problem):
    if not holds: raise IgtError(problem)

def fits(data, crc): return not crc32c or crc32c(bytes(data)) == crc

class Bytes:
    """A place in some bytes, from where parts are taken."""
    def __init__(self, data):
        self.data, self.at = memoryview(data), 0
    def take(self, length):
        insist(length <= len(self.data) - self.at, f"{length} bytes at {self.at} of {len(self.data)}")
        self.at += length
        return self.data[self.at - length:self.at]
    def fixed(self, form): return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]
    def varint(self, most=2**64 - 1):
        value = 0
        for shift in range(0, 70, 7):
            byte = self.fixed("B")
            value |= (byte & 127) << shift
            if byte < 128 and value <= most: return value
        raise IgtError(f"a varint of {value} where {most} is the most")
    def string(self): return str(self.take(self.varint()), "utf-8")
    def varints(self, count=None):
        """So many varints, or all up to the end, as an array."""
        rest = np.frombuffer(self.data[self.at:], np.uint8)
        ends = np.flatnonzero(rest < 128)[:count]
        insist(len(ends) == count if count is not None else not len(rest) or rest[-1] < 128, "ends within a varint")
        if not len(ends): return np.zeros(0, np.uint64)
        rest = rest[:ends[-1] + 1]
        starts = np.concatenate(([0], ends[:-1] + 1))
        lengths = ends - starts + 1
        insist(lengths.max() <= 10 and (rest[ends[lengths == 10]] < 2).all(), "a varint of more than 64 bits")
        shifts = 7 * (np.arange(len(rest)) - np.repeat(starts, lengths))
        self.at += len(rest)
        return np.add.reduceat((rest & 127).astype(np.uint64) << shifts.astype(np.uint64), starts)

def signed(n):  # zigzag undone, of a number or of an array of words
    return n >> 1 ^ -(n & 1) if isinstance(n, int) else n >> np.uint64(1) ^ np.uint64(0) - (n & np.uint64(1))

def inflate(frame, length):
    out = zstandard.ZstdDecompressor().decompress(frame, max_output_size=length, allow_extra_data=False)
    insist(len(out) == length, f"a frame of {len(out)} bytes instead of {length}")
    return out

def plane(at, rows):
    mode, base, count = at.fixed("B"), 0, rows
    if mode == 0: return np.full(rows, at.fixed("B"), np.uint8)
    if mode & 4:
        base = at.fixed("B")
        insist(2 <= base <= 16, f"rows packed to base {base}")
        group = {2: 8, 3: 5, 4: 4, 5: 3, 6: 3}.get(base, 2)
        count = -(-rows // group)
    insist(mode & ~4 in (1, 2), f"plane mode {mode} is unknown")
    data = np.frombuffer(at.take(count) if mode & 1 else inflate(at.take(at.varint()), count), np.uint8)
    return (data[:, None] // base ** np.arange(group) % base).astype(np.uint8).reshape(-1)[:rows] if base else data

def numbers(at, count):
    form = at.fixed("B")
    if form <= 8:
        out = np.zeros(count, "<u8")
        for place in range(form):
            out.view(np.uint8).reshape(count, 8)[:, place] = plane(at, count)
        return out
    if form == 32:
        from pcodec import standalone
        out = standalone.simple_decompress(bytes(at.take(at.varint())))
        insist(out is not None and out.dtype == np.uint64 and len(out) == count, f"not {count} numbers in pcodec's form")
        return out
    insist(17 <= form <= 20, f"form {form} of numbers is unknown")
    digits, sizes = form - 16, plane(at, count).astype(np.int64)
    shifts = np.maximum((sizes >> digits) - 1, 0)
    insist(shifts.max(initial=0) <= 56, "a number of more than 64 bits")
    ends = np.cumsum(shifts)
    bits = bytes(at.take(-(-int(shifts.sum()) // 8))) + bytes(8)
    words = np.ndarray(len(bits) - 7, "<u8", bits, strides=(1,))  # one that begins at each byte
    low = words[ends - shifts >> 3] >> (ends - shifts & 7).astype(np.uint64)
    high, shifts = (sizes - (shifts << digits)).astype(np.uint64), shifts.astype(np.uint64)
    return (high << shifts) + (low & (np.uint64(1) << shifts) - np.uint64(1))

def latest(keys, given, words):
    """For each row the word given last in a row of its key, itself included; else the word of the key's first row."""
    order = np.argsort(keys, kind="stable")
    first = np.diff(keys[order], prepend=~keys[order][:1]) != 0
    source = np.maximum.accumulate(np.where(given[order] | first, np.arange(len(keys)), 0))
    out = words.copy()
    out[order] = words[order][source]
    return out

def recall(at, rows, low, a, b):
    values = np.cumsum(signed(at.varints(at.varint(rows))), dtype=np.uint64)
    codes, words = numbers(at, rows), np.full(rows, low % 2**64, np.uint64)
    given = codes > 0
    words[given] = values[codes[given] - np.uint64(1)]
    slots = (a + np.uint64(1021) * b) % np.uint64(4096)
    firsts = np.sort(np.unique(slots, return_index=True)[1])  # the rows that find their slot empty
    words[firsts] = latest(b[firsts] % np.uint64(16), given[firsts], words[firsts])
    return latest(slots, given, words)

class Column:
    """An entry of a block's directory."""
    def __init__(self, at):
        self.id, code = at.fixed("B"), at.fixed("B")
        self.nullable, self.transform, self.min = code >> 7, code & 127, at.varint()
        insist(self.transform <= RECALL, f"transform {self.transform} of column {self.id} is unknown")
        self.range, self.length, self.crc = (0, 0, 0) if self.transform == CONST else (at.varint(), at.varint(), at.fixed("I"))
        self.sources = [s for i, s in enumerate(at.take({FOLLOW: 1, RECALL: 2}.get(self.transform, 0))) if s or not i]
    def words(self, data, rows, starts, sources):
        """Decoded; `starts` are the first rows of the runs."""
        insist(fits(data, self.crc), f"column {self.id} does not fit its CRC")
        at, low, one = Bytes(data), np.uint64(self.min), np.uint64(self.nullable)
        if self.transform in (CONST, OFFSET):
            out = low + (numbers(at, rows) if self.transform else np.zeros(rows, np.uint64))
        elif self.transform == RISE:
            steps = numbers(at, rows)
            sums = np.cumsum(steps, dtype=np.uint64)
            out = low + sums - np.repeat((sums - steps)[starts], np.diff(starts, append=rows))
        elif self.transform == STEP:
            out = low + np.cumsum(signed(numbers(at, rows)), dtype=np.uint64)
        elif self.transform == DICT:
            out = np.cumsum(at.varints(at.varint(rows)), dtype=np.uint64)[numbers(at, rows)]
        elif self.transform == FOLLOW:
            where = np.cumsum(at.varints(at.varint(rows)), dtype=np.uint64)
            insist(np.isin(starts, where).all(), "the first row of a run is no exception")
            out = np.roll(sources[0], 1) + one
            out[where] = numbers(at, len(where))
        elif self.transform == RUNS:
            pairs = at.varints()
            insist(len(pairs) % 2 == 0 and sum(pairs[1::2].tolist()) == rows, f"runs do not make {rows} rows")
            out = low + np.repeat(pairs[::2], pairs[1::2].astype(np.int64))
        else:
            a, b = (*sources, np.zeros(rows, np.uint64))[:2]
            out = recall(at, rows, self.min - self.nullable, a, b) + one
        insist(at.at == len(data), f"{len(data) - at.at} bytes are left over in column {self.id}")
        return out - one

class Recording:
    """An open file: complete, damage, meta, strings, tasks (pid, tid, birth), functions (layer, class, symbol), kinds, blocks."""
    def __init__(self, path):
        self.path, self.file, self.damage, self.kinds = path, builtins.open(path, "rb"), [], {}
        self.meta, self.strings, self.tasks, self.functions, self.nameless = [], [""], [(0, 0, None)], [], []
        self.size = self.file.seek(0, 2)
        head = self._read(0, 32)
        magic, major, crc = struct.unpack("<8sH18xI", head.ljust(32, b"\0"))
        insist(magic == FILE_MAGIC and len(head) == 32 and fits(head[:28], crc), f"{path}: no .igt file, or a damaged header")
        insist(major == 1, f"{path}: version {major}; this reader knows version 1")
        chunks = self._try(None, self._indexed)
        self.complete, self.chunks = chunks is not None, self._scanned() if chunks is None else chunks
        for c in self.chunks:
            known = SCHEMA <= c["type"] <= FOOTER
            insist(known or c["flags"] & 1, f"{path}: chunk {c['seq']} at {c['offset']} is of the unknown type {c['type']} and needed")
            if known and c["type"] < BLOCK: self._try(c, self._schema if c["type"] == SCHEMA else self._dictionary, c)
        self.nameless += [(TASK, len(self.tasks), UNKNOWN), (FUNCTION, len(self.functions), UNKNOWN)] * bool(self.damage)
        self.meta, self.blocks = dict(self.meta), [c for c in self.chunks if c["type"] == BLOCK]
    def _read(self, offset, length): return os.pread(self.file.fileno(), length, max(offset, 0))
    def _try(self, chunk, what, *args):
        try:
            return what(*args)
        except (IgtError, ValueError, IndexError, RuntimeError, zstandard.ZstdError) as problem:
            self.damage.append((chunk and chunk["seq"], chunk and chunk["offset"], str(problem)))
    def _chunk(self, offset, data=None):
        """The whole chunk that begins there, by its header, or None."""
        data = data or self._read(offset, 56)
        if data[:4] != CHUNK_MAGIC or len(data) < 56 or not fits(data[:52], *struct.unpack("<I", data[52:])): return None
        names = "type flags kind seq rows cpu head_len payload_len head_crc ts_min ts_max".split()
        c = dict(zip(names, struct.unpack("<4xBBHIIIIIIQQ8x", data)), offset=offset)
        c["next"] = -(-(offset + 56 + c["payload_len"]) // 8) * 8
        sound = c["head_len"] <= c["payload_len"] <= min(MAX_PAYLOAD, self.size - offset - 56) and c["ts_min"] <= c["ts_max"]
        return c if sound else None
    def _payload(self, c):
        data = self._read(c["offset"] + 56, c["payload_len"])
        insist(len(data) == c["payload_len"] and fits(data[:c["head_len"]], c["head_crc"]), "the payload does not fit its CRC")
        length = struct.unpack("<I", data[:4])[0] if c["flags"] & 2 and c["type"] != BLOCK else None
        insist(length is None or length <= MAX_PAYLOAD, f"{length} bytes in one chunk")
        return data if length is None else inflate(data[4:], length)
    def _indexed(self):
        footer = self._chunk(self.size - 88)
        insist(footer and footer["type"] == FOOTER, "the file has no footer")
        at, count, _, reserved = struct.unpack("<4Q", self._payload(footer))
        chunks, next_at = self._scanned() if at == 0 else [], 32
        if at == 0: return chunks if len(chunks) == count and not self.damage else None
        index = self._chunk(at)
        insist(index and index["type"] == INDEX and reserved == 0, "the footer names no index")
        payload = self._payload(index)
        for i in range(0, len(payload), 64):
            chunks.append(self._chunk(*struct.unpack_from("<Q", payload, i), payload[i + 8:i + 64]))
            insist(chunks[-1] and chunks[-1]["offset"] == next_at, f"entry {i // 64} of the index does not fit the file")
            next_at = chunks[-1]["next"]
        insist(len(chunks) == count and next_at == at, "index and footer contradict each other")
        return chunks
    def _scanned(self):
        chunks, at, last = [], 32, -1
        while at < self.size:
            c = self._chunk(at)
            if not c:
                rest, start = self._read(at, self.size), at
                while not (c and c["seq"] > last) and at < self.size:
                    found = rest.find(CHUNK_MAGIC, at + 1 - start)
                    at = start + found if found >= 0 else self.size
                    c = self._chunk(at) if at % 8 == 0 else None
                self.damage.append((None, start, f"{at - start} bytes are no chunk"))
            if c:
                at, last = c["next"], c["seq"]
                chunks += [c] * (c["type"] not in (INDEX, FOOTER))
        return chunks
    def _schema(self, c):
        at = Bytes(self._payload(c))
        for _ in range(at.varint()):
            number, kind = at.fixed("H"), {"name": at.string(), "meaning": at.string(), "columns": {}}
            for _ in range(at.varint()):
                column, unit, nullable = at.take(3)
                kind["columns"][column] = {"unit": unit, "nullable": nullable & 1, "name": at.string(), "meaning": at.string(),
                                           "names": {at.varint(): at.string() for _ in range(at.varint())}}
            self.kinds[number] = kind
    def _dictionary(self, c):
        at, pid, birth = Bytes(self._payload(c)), 0, 0
        entries = {META: self.meta, STRINGS: self.strings, TASKS: self.tasks, FUNCTIONS: self.functions}[c["type"]]
        lost = at.varint() - len(entries)
        insist(0 <= lost <= self.size, f"entry {len(entries)} expected, {lost + len(entries)} found")
        self.nameless += [({TASKS: TASK, FUNCTIONS: FUNCTION}.get(c["type"]), len(entries), len(entries) + lost)]
        entries += [{META: ("", ""), STRINGS: "?", TASKS: (0, 0, None), FUNCTIONS: ("other", "other", "?")}[c["type"]]] * lost
        while at.at < len(at.data):
            if c["type"] == TASKS:
                pid += signed(at.varint())
                tid, born = pid + signed(at.varint()), at.varint()
                birth = birth + signed(born - 1) if born else 0
            entries.append({STRINGS: at.string, META: lambda: (at.string(), at.string()),
                            TASKS: lambda: (pid, tid, birth if born else None), FUNCTIONS: lambda: (
                                LAYERS.get(at.fixed("B"), "other"), CLASSES.get(at.fixed("B"), "other"), at.string())}[c["type"]]())
    def read(self, block, wanted=None):
        """Columns of a block by id, those wanted or all that it has or the schema knows."""
        rows, head = block["rows"], block["head_len"]
        insist(0 < rows <= MAX_ROWS, f"{rows} rows")
        data = memoryview(self._payload(block))
        at, end, stored, words = Bytes(data[:head]), head, {}, {}
        for _ in range(at.varint(MAX_COLUMNS)):
            c = Column(at)
            insist(c.id not in stored, f"column {c.id} stands twice")
            stored[c.id], c.data = c, data[end:end + c.length]
            end += c.length
        insist(at.at == head and end == len(data), "the directory does not fit the payload")
        starts = np.zeros(1, np.int64)
        def decode(i, above=()):
            insist(i not in above, f"column {i} needs itself")
            if i not in words:
                sources = [decode(s, (*above, i)) for s in stored[i].sources] if i in stored else []
                absent = np.full(rows, UNKNOWN if columns.get(i, {}).get("nullable") else 0, np.uint64)
                words[i] = stored[i].words(stored[i].data, rows, starts, sources) if i in stored else absent
            return words[i]
        columns = self.kinds.get(block["kind"], {"columns": {}})["columns"]
        starts = np.flatnonzero(np.diff(decode(1), prepend=~decode(1)[:1]))
        lost = [i for u, a, b in self.nameless for i, c in columns.items() if c["unit"] == u and ((decode(i) >= a) & (decode(i) < b)).any()]
        insist(not lost, f"columns {lost} name tasks or functions that were lost")
        return {i: decode(i) for i in (wanted or sorted({*columns, *stored}))}
    def events(self, name, columns=None):
        """Every event of a kind, in the order of their times: {column: 64-bit words}. UNKNOWN is "not known" where a column may be."""
        kinds = {k["name"]: number for number, k in self.kinds.items()}
        insist(name in kinds, f"{self.path}: there is no kind {name}; it has {', '.join(kinds)}")
        ids = {c["name"]: i for i, c in self.kinds[kinds[name]]["columns"].items()}
        parts = [self._try(b, self.read, b) for b in self.blocks if b["kind"] == kinds[name]]
        out = {n: np.concatenate([p[i] for p in parts if p] or [np.zeros(0, np.uint64)]) for n, i in ids.items()}
        order = np.argsort(out["ts_ns"], kind="stable")
        if "end" in out:  # a call that was open for a while stands there twice
            calls = list(zip(*(out[n].tolist() for n in ("task", "func", "ts_ns"))))
            ended = {calls[n] for n in np.flatnonzero(out["end"] != 1)}
            order = [n for n in order.tolist() if out["end"][n] != 1 or calls[n] not in ended]
        return {n: out[n][order] for n in columns or ids}
    def table(self, name):
        """The same as lists: names instead of ids, None where a value is not known; tasks as two columns."""
        events, out = self.events(name), {}
        for c in next(k for k in self.kinds.values() if k["name"] == name)["columns"].values():
            column, words = c["name"], events[c["name"]].tolist()
            shown = {STRING: lambda w: self.strings[w], FUNCTION: lambda w: self.functions[w][2], SIGNED: signed,
                     ENUM: lambda w: c["names"].get(w, w)}.get(c["unit"], lambda w: w)
            if c["unit"] == TASK:
                out[column + "_pid"], out[column + "_tid"] = ([self.tasks[w][i] for w in words] for i in (0, 1))
            else:
                out[column] = [None if c["nullable"] and w == 2**64 - 1 else shown(w) for w in words]
        return out
    def to_pandas(self, name): return __import__("pandas").DataFrame(self.table(name))
    def to_polars(self, name): return __import__("polars").DataFrame(self.table(name), infer_schema_length=None)

open = Recording

if __name__ == "__main__":
    run = open(sys.argv[1])
    print(json.dumps({n: getattr(run, n) for n in ("complete", "meta", "strings", "tasks", "functions")}))
    for b in run.blocks:
        sums = {i: crc32c and crc32c(words.tobytes()) for i, words in (run._try(b, run.read, b) or {}).items()}
        print(json.dumps({"seq": b["seq"], "kind": b["kind"], "rows": b["rows"] if sums else 0, "columns": sums}))
    print(*("chunk %s at %s: %s" % damage for damage in run.damage), sep="\n", file=sys.stderr)
