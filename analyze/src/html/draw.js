// How things look on the canvas. What something is shows in its shape and place, never in its colour alone.

const STATES = ["running", "runnable", "blocked", "throttled", "off the CPUs, blocked or waiting for one"];
const STATE_COLOURS = ["running", "runnable", "blocked", "throttled", "stored"];
const [RUNNING, RUNNABLE, BLOCKED, THROTTLED, OFF_CPU] = [0, 1, 2, 3, 4];
/** The states that columns have, in their order. */
const CELL_STATES = [RUNNING, RUNNABLE, THROTTLED, BLOCKED, OFF_CPU];
const CLASS_COLOURS = { launch: "call", copy: "copy", sync: "wait", alloc: "memory", free: "memory", range: "low" };
const FONT = "11.5px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

/** The page's colours as they are now. */
function palette() {
  const style = getComputedStyle(document.documentElement);
  const names = ["bg", "card", "fg", "muted", "rule", "accent", "high", "medium", "low", "running", "runnable", "throttled", "blocked",
    "stored", "call", "copy", "wait", "memory", "other", "error", "select", "others", "p0", "p1", "p2", "p3", "p4", "p5", "p6"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue("--" + name).trim()]));
}

/** Stripes of a colour over a paler ground. */
function stripes(context, colour, ground, crossed) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const t = tile.getContext("2d");
  t.fillStyle = ground;
  t.fillRect(0, 0, 8, 8);
  t.globalAlpha = 0.45;
  t.fillStyle = colour;
  t.fillRect(0, 0, 8, 8);
  t.globalAlpha = 1;
  t.strokeStyle = colour;
  t.lineWidth = 2.4;
  t.beginPath();
  for (const shift of [-8, 0, 8]) {
    t.moveTo(shift, 8);
    t.lineTo(shift + 8, 0);
    if (crossed) {
      t.moveTo(shift, 0);
      t.lineTo(shift + 8, 8);
    }
  }
  t.stroke();
  return context.createPattern(tile, "repeat");
}

/** Thin lines far apart, with nothing between them: what stands below and above stays to be seen. */
function hatching(context, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 10;
  const t = tile.getContext("2d");
  t.strokeStyle = colour;
  t.globalAlpha = 0.55;
  t.beginPath();
  for (const shift of [-10, 0, 10]) {
    t.moveTo(shift, 0);
    t.lineTo(shift + 10, 10);
  }
  t.stroke();
  return context.createPattern(tile, "repeat");
}

/** The host that a row is of, in a recording of several. */
const hostOf = (model, row) => row.kind === "cpu" ? model.cpuHosts[row.at] : model.processes[model.tasks[row.task][1]][2];

/** The stretches with losses that concern a row, or all. */
function lostOf(model, row) {
  const own = row && hostOf(model, row);
  return model.lost.filter(([, , , host]) => own === undefined || host === null || host === own);
}

/** Those of them around a time. */
const lostAt = (model, time, row) => lostOf(model, row).filter(([start, end]) => start <= time && time < Math.max(end, start + 1));

/** A pen for one canvas: colours, stripes, and the shape of each state. */
function pen(canvas, width, height, scale, colours) {
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const c = canvas.getContext("2d");
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.fillStyle = colours.bg;
  c.fillRect(0, 0, width, height);
  c.font = FONT;
  c.textBaseline = "middle";
  const runnable = stripes(c, colours.runnable, colours.bg, false);
  const throttled = stripes(c, colours.throttled, colours.bg, true);
  const lost = hatching(c, colours.error);
  return {
    c, colours, width, height,
    /** A stretch of one state that is wide enough to see its shape. */
    state(state, x, y, w, h) {
      if (state === RUNNING) {
        c.fillStyle = colours.running;
        c.fillRect(x, y, w, h);
      } else if (state === BLOCKED) {
        c.fillStyle = colours.blocked;
        c.fillRect(x, y + h - 3, w, 2);
      } else if (state === OFF_CPU) {
        c.fillStyle = colours.stored;
        c.fillRect(x, y + h * 0.35, Math.max(w, 1.5), h * 0.4);
      } else {
        c.fillStyle = state === RUNNABLE ? runnable : throttled;
        c.fillRect(x, y, w, h);
      }
    },
    /** A stretch in which events were lost. */
    lost(x, y, w, h) {
      c.fillStyle = lost;
      c.fillRect(x, y, Math.max(w, 2), h);
    },
    /** Shares of several states, one on another: running lowest, then runnable, then throttled; blocked is the line below. */
    shares(sums, all, x, y, w, h) {
      let top = y + h;
      if (sums[BLOCKED] > 0) {
        c.fillStyle = colours.blocked;
        c.fillRect(x, y + h - 3, w, 2);
      }
      for (const state of [RUNNING, RUNNABLE, THROTTLED]) {
        const part = (h * sums[state]) / all;
        if (part <= 0) continue;
        c.fillStyle = w >= 4 && state !== RUNNING ? (state === RUNNABLE ? runnable : throttled) : colours[STATE_COLOURS[state]];
        // What there is a little of is still to be seen.
        const shown = Math.max(part, 1);
        c.fillRect(x, top - shown, w, shown);
        top -= part;
      }
      if (sums[OFF_CPU] > 0) this.state(OFF_CPU, x, y, w, h);
    },
    text(text, x, y, colour, most) {
      c.fillStyle = colour;
      c.fillText(clipped(c, text, most), x, y);
    },
  };
}

const WIDTHS = new Map();

/** A text cut to a width. A number at its end is kept: that is what tells it from others. */
function clipped(c, text, most) {
  const key = text + "\n" + Math.round(most);
  const known = WIDTHS.get(key);
  if (known !== undefined) return known;
  if (WIDTHS.size > 20000) WIDTHS.clear();
  let out = text;
  if (c.measureText(text).width > most) {
    const letters = [...text];
    const tail = Math.min(letters.length >> 1, text.match(/(\(\d+\)|, phase \d+|\d)$/)?.[0].length ?? 0);
    let head = letters.length - tail - 1;
    do {
      out = head > 0 ? letters.slice(0, head).join("") + "…" + letters.slice(letters.length - tail).join("") : "";
      head -= 1;
    } while (head >= 0 && c.measureText(out).width > most);
    if (c.measureText(out).width > most) out = "";
  }
  WIDTHS.set(key, out);
  return out;
}

/** A length of time as the page's words have it: three digits that count. */
function duration(ns) {
  if (ns === 0) return "0";
  const [scale, unit] = ns < 1e3 ? [1, "ns"] : ns < 1e6 ? [1e3, "us"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  const value = ns / scale;
  return (scale === 1 ? Math.round(value) : value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2)) + " " + unit;
}

const exactly = (ns) => Math.round(ns).toLocaleString("en-US") + " ns";

/** Steps of a ruler with at most so many marks: 1, 2 or 5 times a power of ten. */
function rulerStep(span, most) {
  const least = span / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least);
}

/** The first of a row's stretches that ends after a time; where they stand in one another, all before it end by then. */
function firstAfter(list, row, time) {
  const ends = list.reach ?? list.end;
  let low = list.first[row];
  let high = list.first[row + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Walks over a row's stretches between two times. One that is wide enough to see is given to `wide` with its place; those that
 * are not are given to `narrow` with their length, and `flush` is told the pixel that they share when it is left.
 */
function walk(list, row, from, to, place, { wide, narrow, flush }) {
  let column = -1;
  const leave = () => {
    if (column >= 0) flush(column);
    column = -1;
  };
  for (let i = firstAfter(list, row, from); i < list.first[row + 1] && list.start[i] < to; i++) {
    const start = Math.max(list.start[i], from);
    const end = Math.min(list.end[i], to);
    const x = place.x(start);
    const w = (end - start) * place.scale;
    if (w >= 1.5) {
      leave();
      wide(i, x, w);
      continue;
    }
    const at = Math.floor(x);
    if (at !== column) leave();
    column = at;
    narrow(i, end - start);
  }
  leave();
}

/** States of a row between two times, from every stretch: those too narrow to see are drawn as shares of their pixel. */
function drawStates(pen, list, row, from, to, place, y, h) {
  const sums = [0, 0, 0, 0, 0];
  const pixel = 1 / place.scale;
  walk(list, row, from, to, place, {
    wide: (i, x, w) => pen.state(list.state[i] & 7, x, y, w, h),
    narrow: (i, ns) => {
      const state = list.state[i] & 7;
      sums[state] += state === OFF_CPU ? pixel : ns;
    },
    flush: (column) => {
      pen.shares(sums, pixel, column, y, 1, h);
      sums.fill(0);
    },
  });
}

/** States of a row between two times, from its columns. */
function drawCells(pen, model, row, from, to, place, y, h) {
  const { cells, width, columns } = model;
  const wide = width * place.scale;
  const base = row * columns;
  const sums = [0, 0, 0, 0, 0];
  const add = (at) => {
    cells.forEach((ns, n) => (sums[CELL_STATES[n]] += ns[base + at]));
  };
  const last = Math.min(columns - 1, Math.ceil(to / width));
  let at = Math.max(0, Math.floor(from / width));
  while (at <= last) {
    const begin = at;
    const x = place.x(at * width);
    sums.fill(0);
    // At least a pixel at a time.
    do add(at++);
    while (at <= last && (at - begin) * wide < 1);
    const left = Math.max(x, place.x(from));
    const right = Math.min(place.x(at * width), place.x(to));
    if (right > left) pen.shares(sums, (at - begin) * width, left, y, right - left, h);
  }
}

/** Who was on a CPU between two times, from every run. */
function drawRuns(pen, list, row, from, to, place, y, h, colourOf, labelOf) {
  const c = pen.c;
  let busy = 0;
  let most = 0;
  let who = 0;
  walk(list, row, from, to, place, {
    wide: (i, x, w) => {
      c.fillStyle = colourOf(list.who[i]);
      c.fillRect(x, y, w > 4 ? w - 0.7 : w, h);
      if (w > 44) pen.text(labelOf(list.who[i]), Math.max(x, place.left) + 4, y + h / 2 + 0.5, pen.colours.bg, Math.min(w, place.right - x) - 8);
    },
    narrow: (i, ns) => {
      busy += ns;
      if (ns >= most) {
        most = ns;
        who = list.who[i];
      }
    },
    flush: (column) => {
      const part = Math.min(h, Math.max(1, h * busy * place.scale));
      c.fillStyle = colourOf(who);
      c.fillRect(column, y + h - part, 1, part);
      busy = most = 0;
    },
  });
}

/** For how long a row had something in each of its columns, coloured by what had most. */
function drawBusy(pen, cells, base, model, from, to, place, y, h, colourOf) {
  const { width, columns } = model;
  const wide = width * place.scale;
  const last = Math.min(columns - 1, Math.ceil(to / width));
  let at = Math.max(0, Math.floor(from / width));
  while (at <= last) {
    const begin = at;
    let ns = 0;
    let most = -1;
    let who = 0;
    do {
      const here = cells.ns[base + at];
      ns += here;
      if (here > most) {
        most = here;
        who = cells.who[base + at];
      }
      at++;
    } while (at <= last && (at - begin) * wide < 1);
    const left = Math.max(place.x(begin * width), place.x(from));
    const right = Math.min(place.x(at * width), place.x(to));
    if (ns <= 0 || right <= left) continue;
    const part = Math.min(h, Math.max(1, (h * ns) / ((at - begin) * width)));
    pen.c.fillStyle = colourOf(who);
    pen.c.fillRect(left, y + h - part, right - left, part);
  }
}

/** Calls, named ranges or GPU work of a row between two times, outer ones above inner ones. */
function drawCalls(pen, list, row, from, to, place, y, lane, lanes, colourOf, labelOf) {
  const c = pen.c;
  const lastPixel = new Int32Array(lanes).fill(-1);
  // What ends where the view begins takes no time there; what takes none at all is found a step before.
  for (let k = firstAfter(list, row, from - 1); k < list.first[row + 1] && list.start[k] < to; k++) {
    if (list.end[k] < from) continue;
    const depth = Math.min(list.depth[k], lanes - 1);
    const x = place.x(Math.max(list.start[k], from));
    const w = (Math.min(list.end[k], to) - Math.max(list.start[k], from)) * place.scale;
    const top = y + depth * lane;
    const how = list.how[k] & 3;
    if (w < 1) {
      const pixel = Math.floor(x);
      if (lastPixel[depth] === pixel && how === 0) continue;
      lastPixel[depth] = pixel;
    }
    c.fillStyle = how === 1 ? pen.colours.error : colourOf(list.func[k]);
    c.fillRect(x, top, Math.max(w, 1), lane - 1);
    // A call that failed has a bar on top, one that never returned an arrow.
    if (how === 1) c.fillRect(x, top - 2, Math.max(w, 3), 2);
    if (how === 2) {
      c.beginPath();
      c.moveTo(x, top);
      c.lineTo(x + 7, top + lane / 2);
      c.lineTo(x, top + lane - 1);
      c.fill();
    }
    if (w > 40 && lane >= 9) pen.text(labelOf(list.func[k]), Math.max(x, place.left) + 3, top + lane / 2, pen.colours.bg, Math.min(w, place.right - x) - 6);
  }
}
