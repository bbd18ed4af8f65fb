"""list.py PARSERS FILE: what the parser made of spec/igt.ksy, in the folder PARSERS, finds in a recording, as JSON lines."""

import io
import json
import sys

import zstandard
from kaitaistruct import KaitaiStream

sys.path.insert(0, sys.argv[1])
from igt import Igt  # noqa: E402

PARTS = {1: Igt.Schema, 2: Igt.MetaEntries, 3: Igt.Strings, 4: Igt.Tasks, 5: Igt.Functions, 7: Igt.Index}


def inflated(number, payload):
    """The description leaves compressed payloads to others; what is in them, it describes."""
    if not isinstance(payload, Igt.Compressed):
        return payload
    raw = zstandard.ZstdDecompressor().decompress(payload.frame, max_output_size=payload.len_raw)
    return PARTS[number](KaitaiStream(io.BytesIO(raw)))


run = Igt.from_file(sys.argv[2])
print(json.dumps({"major": run.header.major, "minor": run.header.minor}))
for c in run.chunks:
    number = int(c.header.type)
    payload = inflated(number, c.payload)
    if number == 6:
        directory = payload.directory.entries
        holds = [[e.id, int(e.transform), e.len_column.value if e.has_bytes else 0] for e in directory]
        assert [len(column) for column in payload.columns] == [length for _, _, length in holds]
    elif number == 1:
        holds = [[k.number, k.name.value, [column.name.value for column in k.columns]] for k in payload.kinds]
    elif number == 7:
        holds = [[e.offset, e.header.seq] for e in payload.entries]
    elif number == 8:
        holds = [payload.index_offset, payload.num_chunks, payload.num_events]
    elif isinstance(payload, bytes):
        holds = [len(payload)]
    else:
        holds = [payload.first.value, len(payload.entries)]
        holds += [e.value for e in payload.entries] if number == 3 else []
        holds += [e.symbol.value for e in payload.entries] if number == 5 else []
    header = [c.header.kind, c.header.seq, c.header.rows, c.header.cpu, c.header.len_payload, c.header.ts_min, c.header.ts_max]
    print(json.dumps({"offset": c.offset, "type": number, "header": header, "holds": holds}))
