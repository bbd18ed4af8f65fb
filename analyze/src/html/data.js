// Reads what the timeline is drawn from: see pack.rs for the form. Names in it are data, and are only ever drawn as text.

/** The head, with its streams read where they are asked for. */
async function readData(element) {
  const packed = Uint8Array.from(atob(element.textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const headBytes = new DataView(bytes.buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + headBytes)));
  const numbers = bytes.subarray(4 + headBytes);
  head.read = (name, Form = Float64Array) => {
    const place = head.streams[name];
    if (!place) return new Form(0);
    let [at, count] = place;
    const out = new Form(count);
    for (let i = 0; i < count; i++) {
      let byte = numbers[at++];
      let number = byte & 127;
      // Powers, not shifts: numbers go up to 2^53.
      for (let scale = 128; byte > 127; scale *= 128) {
        byte = numbers[at++];
        number += (byte & 127) * scale;
      }
      out[i] = number;
    }
    return out;
  };
  return head;
}

/**
 * Stretches of all rows one behind another: `first[row]` to `first[row + 1]` are those of a row, in order of time. Where
 * they stand in one another, `reach` is the latest end of those up to each of a row.
 */
function readStretches(head, prefix, fields, fromStart) {
  const counts = head.read(prefix + "count", Uint32Array);
  const first = new Uint32Array(counts.length + 1);
  counts.forEach((n, row) => (first[row + 1] = first[row] + n));
  const gaps = head.read(prefix + "gap");
  const lengths = head.read(prefix + "len");
  const start = new Float64Array(gaps.length);
  const end = new Float64Array(gaps.length);
  for (let row = 0; row < counts.length; row++) {
    let last = 0;
    for (let i = first[row]; i < first[row + 1]; i++) {
      start[i] = last + gaps[i];
      end[i] = start[i] + lengths[i];
      last = fromStart ? start[i] : end[i];
    }
  }
  const out = { first, start, end };
  if (fromStart) {
    out.reach = end.slice();
    for (let row = 0; row < counts.length; row++) {
      for (let i = first[row] + 1; i < first[row + 1]; i++) out.reach[i] = Math.max(out.reach[i], out.reach[i - 1]);
    }
  }
  for (const field of fields) out[field] = head.read(prefix + field, Uint32Array);
  return out;
}

/** Everything that the timeline shows, in one object. */
async function readModel(element) {
  const head = await readData(element);
  const model = {
    ...head,
    states: readStretches(head, "s.", ["state", "where", "whom"], false),
    calls: readStretches(head, "c.", ["func", "how", "depth"], true),
    named: readStretches(head, "n.", ["func", "how", "depth"], true),
    works: readStretches(head, "g.", ["func", "how", "depth"], true),
    runs: readStretches(head, "p.", ["who"], false),
  };
  if (head.columns) {
    const lanes = ["running", "runnable", "throttled", "blocked"].concat(head.undivided ? ["offCpu"] : []);
    model.cells = lanes.map((name) => head.read("z." + name));
    model.callCells = { ns: head.read("k.ns"), who: head.read("k.who", Uint32Array) };
    model.cpuCells = { ns: head.read("q.ns"), who: head.read("q.who", Uint32Array) };
  }
  return model;
}
