// The timeline: what part of the time is shown, where its rows are, and what the pointer and the keys do.

const RULER = 24;
const OVERVIEW = 12;
const LANE = 17;
const STATE = 14;
const CALL = 13;
const DEPTHS = 3;
/** Lanes of what the program named. */
const NAMED_DEPTHS = 2;
/** The least that can be shown at once. */
const LEAST_NS = 200;

/** What a cause is called above the threads. */
const causeLabel = ([, kind, severity, , , phase], several) => `${severity} ${kind}${several ? `, phase ${phase}` : ""}`;

/** Lanes that a row's stretches need, up to a number. */
function deepest({ first, depth }, row, most) {
  let lanes = 0;
  for (let i = first[row]; i < first[row + 1] && lanes < most; i++) lanes = Math.max(lanes, depth[i] + 1);
  return Math.min(lanes, most);
}

class Timeline {
  constructor(model, place) {
    this.model = model;
    this.from = 0;
    this.to = model.len;
    this.closed = new Set();
    this.selected = -1;
    this.focus = null;
    this.hover = null;
    this.printing = false;
    this.rowOfTask = new Map(model.rows.map((task, row) => [task, row]));
    this.calledAt = new Map(model.called.map((row, at) => [row, at]));
    if (model.phases.length) {
      // The phases are what matters; "Whole" shows the rest.
      const [first, last] = [Math.min(...model.phases.map((p) => p[3])), Math.max(...model.phases.map((p) => p[4]))];
      const margin = Math.max(last - first, LEAST_NS) * 0.04;
      [this.from, this.to] = [Math.max(0, first - margin), Math.min(model.len, last + margin)];
    }
    this.build(place);
    this.arrange();
    listen(this);
    new ResizeObserver(() => this.draw()).observe(this.stage);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  // ---- what there is on the page

  build(place) {
    const make = (tag, props, ...children) => {
      const element = Object.assign(document.createElement(tag), props);
      element.append(...children);
      return element;
    };
    const button = (text, title, act) => {
      const b = make("button", { type: "button", textContent: text, title });
      b.addEventListener("click", act);
      return b;
    };
    this.rangeText = make("span", { className: "range" });
    const tools = make("div", { className: "tools" },
      button("Zoom in", "key +", () => this.zoom(0.5)),
      button("Zoom out", "key -", () => this.zoom(2)),
      button("Whole", "key 0", () => this.show(0, this.model.len)),
      button("\u25C0", "earlier: left arrow", () => this.pan(-0.5)),
      button("\u25B6", "later: right arrow", () => this.pan(0.5)),
      ...(this.model.incidents.length ? [button("Next cause", "key n", () => this.step(1))] : []),
      this.rangeText);
    tools.children[3].setAttribute("aria-label", "Earlier");
    tools.children[4].setAttribute("aria-label", "Later");
    this.top = make("canvas", { className: "top" });
    this.canvas = make("canvas", { className: "body" });
    this.space = make("div", { className: "space" }, this.canvas);
    this.scroller = make("div", { className: "rows" }, this.space);
    this.tip = make("div", { className: "tip", hidden: true });
    this.stage = make("div", { className: "stage", tabIndex: 0 }, this.top, this.scroller, this.tip);
    this.stage.setAttribute("role", "application");
    this.stage.setAttribute("aria-label", "Timeline. Plus and minus zoom, left and right move, up and down choose a row, n goes to the next cause, 0 shows all.");
    this.said = make("p", { className: "said" });
    this.said.setAttribute("aria-live", "polite");
    const keys = make("p", { className: "keys", textContent:
      "Drag or \u2190 \u2192 to move, Ctrl+wheel, pinch, double click or + \u2212 to zoom (the plain wheel zooms on the ruler), \u2191 \u2193 to choose a row, n for the next cause, 0 for all, click a process to fold it." });
    this.legend = make("ul", { className: "key" });
    place.append(tools, this.stage, this.said, this.legend, keys);
  }

  /** The rows from top to bottom, each with its place. */
  arrange() {
    const m = this.model;
    const rows = [];
    let y = 4;
    const put = (row, height) => {
      rows.push({ ...row, y, height });
      y += height;
    };
    const threads = new Map();
    for (const task of m.rows) threads.set(m.tasks[task][1], (threads.get(m.tasks[task][1]) ?? 0) + 1);
    if (m.gpus.length) {
      put({ kind: "process", process: -4, label: "GPU work" + (m.gpusHidden ? `, ${m.gpusHidden} more streams left out` : "") }, 22);
      if (!this.closed.has(-4)) {
        m.gpus.forEach((label, at) => {
          const lanes = deepest(m.works, at, DEPTHS);
          put({ kind: "gpu", at, label, lanes }, lanes * CALL + 6);
        });
      }
    }
    let process = -1;
    m.rows.forEach((task, row) => {
      const of = m.tasks[task][1];
      // One thread that is called as its process stands for it.
      const alone = threads.get(of) === 1 && m.tasks[task][0] === m.processes[of][0];
      if (of !== process && !alone) put({ kind: "process", process: of, label: m.processes[of][0] }, 22);
      process = of;
      if (this.closed.has(of)) return;
      const named = deepest(m.named, row, NAMED_DEPTHS);
      const lanes = deepest(m.calls, row, DEPTHS) || (this.calledAt.has(row) ? 1 : 0);
      const above = named + lanes ? (named + lanes) * CALL + 3 : 0;
      put({ kind: "thread", row, task, label: m.tasks[task][0], named, lanes, above, alone }, STATE + 5 + above);
    });
    if (m.cpus.length) {
      put({ kind: "process", process: -2, label: "CPUs" }, 22);
      if (!this.closed.has(-2)) m.cpus.forEach((cpu, at) => put({ kind: "cpu", at, label: "CPU " + cpu }, 18));
    }
    this.rows = rows;
    this.height = y + 4;
  }

  get gutter() {
    return Math.round(Math.min(190, this.width * 0.27));
  }

  /** Where times are on a canvas. */
  place() {
    const left = this.gutter;
    const right = this.width - 1;
    const scale = (right - left) / (this.to - this.from);
    return { left, right, scale, x: (time) => left + (time - this.from) * scale, time: (x) => this.from + (x - left) / scale };
  }

  // ---- moving about

  show(from, to, quietly) {
    const span = Math.min(Math.max(to - from, Math.min(LEAST_NS, this.model.len)), this.model.len);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - span / 2, 0), this.model.len - span);
    this.to = this.from + span;
    if (!quietly) this.focus = null;
    this.draw();
    clearTimeout(this.told);
    this.told = setTimeout(() => this.tell(), 250);
  }

  zoom(factor, around) {
    const middle = around ?? (this.from + this.to) / 2;
    const from = middle - (middle - this.from) * factor;
    this.show(from, from + (this.to - this.from) * factor, true);
  }

  pan(share) {
    const by = (this.to - this.from) * share;
    const to = Math.min(Math.max(this.to + by, this.to - this.from), this.model.len);
    this.show(to - (this.to - this.from), to, true);
  }

  /** Goes to the stretch that shows a cause. */
  goTo(incident, mark) {
    const found = this.model.incidents[incident]?.[4][mark];
    if (!found) return false;
    const [what, task, start, end] = found;
    const length = Math.max(end - start, LEAST_NS);
    const row = this.rowOfTask.get(task);
    if (row !== undefined && this.closed.delete(this.model.tasks[task][1])) this.arrange();
    this.show(start - length * 0.6, end + length * 0.6, true);
    clearTimeout(this.told);
    this.focus = { incident, mark, row, start, end, what };
    const placed = this.rows.find((r) => r.kind === "thread" && r.row === row);
    if (placed) this.scroller.scrollTop = placed.y - this.scroller.clientHeight / 3;
    this.draw();
    this.said.textContent = `${this.model.incidents[incident][2]} ${this.model.incidents[incident][1]}: ${what}`;
    return true;
  }

  /** Goes to the next cause, or back. */
  step(by) {
    const all = this.model.incidents.flatMap((i, n) => i[4].map((_, m) => [n, m]));
    if (!all.length) {
      this.said.textContent = "No cause has a place in the timeline.";
      return;
    }
    const now = this.focus ? all.findIndex(([n, m]) => n === this.focus.incident && m === this.focus.mark) : by > 0 ? -1 : 0;
    this.goTo(...all[(now + by + all.length) % all.length]);
  }

  // ---- drawing

  draw() {
    if (this.wanted) return;
    this.wanted = requestAnimationFrame(() => {
      this.wanted = 0;
      this.drawNow();
    });
  }

  drawNow() {
    // As tall as its rows first: whether a scrollbar takes width from them hangs on that, and ruler and rows share one scale.
    this.space.style.height = this.printing ? "auto" : this.height + "px";
    this.width = this.printing ? 1040 : this.scroller.clientWidth;
    if (this.width < 50) return;
    this.top.style.width = this.printing ? "" : this.width + "px";
    this.colours = palette();
    const scale = this.printing ? 2 : Math.min(window.devicePixelRatio || 1, 3);
    this.drawTop(scale);
    const rows = this.printing ? this.onPaper() : this.rows;
    const shown = this.printing ? rows.at(-1).y + rows.at(-1).height + 4 : Math.min(this.height, Math.max(120, Math.min(innerHeight * 0.72, 760)));
    const pan = pen(this.canvas, this.width, shown, scale, this.colours);
    this.canvas.style.height = this.printing ? "auto" : shown + "px";
    this.drawRows(pan, rows, this.printing ? 0 : Math.min(this.scroller.scrollTop, Math.max(0, this.height - shown)), shown);
    this.rangeText.textContent = `${this.clock(this.from, this.to - this.from)} to ${this.clock(this.to, this.to - this.from)} (${duration(this.to - this.from)})`;
    this.drawLegend(scale);
  }

  colourOf = (process) => {
    const at = this.model.busiest.indexOf(process);
    return at < 0 ? this.colours.others : this.colours["p" + at];
  };
  callColour = (func) => this.colours[CLASS_COLOURS[this.model.functions[func]?.[2]] ?? "other"];
  labelColour = (label) => this.colours[CLASS_COLOURS[this.model.labels[label][1]] ?? "other"];
  labelName = (label) => this.model.labels[label][0];
  callName = (func) => this.model.functions[func]?.[0] ?? "?";

  /** The ruler, the phases and the causes. */
  drawTop(scale) {
    const m = this.model;
    const lanes = [];
    for (const process of new Set(m.phases.map((p) => p[2]))) lanes.push({ label: process, phases: m.phases.filter((p) => p[2] === process) });
    const causes = m.incidents.slice(0, 8).map((incident, n) => ({ label: causeLabel(incident, m.phases.length > 1), incident, n }));
    const lost = m.lost.length ? [{ label: "events lost", lost: m.lost }] : [];
    this.topLanes = [...lost, ...lanes, ...causes];
    const height = OVERVIEW + RULER + this.topLanes.length * LANE + 5;
    const p = pen(this.top, this.width, height, scale, this.colours);
    this.top.style.height = this.printing ? "auto" : height + "px";
    const { c, colours } = p;
    const place = this.place();
    // Where in the whole this is.
    const whole = (time) => place.left + ((place.right - place.left) * time) / m.len;
    c.fillStyle = colours.card;
    c.fillRect(place.left, 3, place.right - place.left, 6);
    c.fillStyle = colours.select;
    c.fillRect(whole(this.from), 3, Math.max(whole(this.to) - whole(this.from), 3), 6);
    this.drawRuler(p, place);
    this.topLanes.forEach((lane, at) => {
      const y = OVERVIEW + RULER + at * LANE;
      // Where there is little room, the kind goes before all else: how bad it is shows in the shape.
      const label = lane.incident && place.left < 150 ? lane.incident[1] : lane.label;
      p.text(label, 8, y + LANE / 2, lane.incident ? colours[lane.incident[2].toLowerCase()] : lane.lost ? colours.error : colours.fg, place.left - 14);
      c.save();
      c.beginPath();
      c.rect(place.left, y, place.right - place.left, LANE);
      c.clip();
      for (const [start, end] of lane.lost ?? []) p.lost(place.x(start), y + 1, place.x(end) - place.x(start), LANE - 3);
      for (const [number, label, , start, end] of lane.phases ?? []) {
        const x = place.x(start);
        const w = Math.max(place.x(end) - x, 1);
        c.fillStyle = colours.card;
        c.fillRect(x, y + 1, w, LANE - 3);
        c.strokeStyle = colours.muted;
        c.strokeRect(x + 0.5, y + 1.5, w - 1, LANE - 4);
        const left = Math.max(x, place.left);
        if (w > 60) p.text(`${number}: ${label}`, left + 5, y + LANE / 2, colours.fg, Math.min(x + w, place.right) - left - 10);
        else if (w > 12) p.text(`${number}`, left + 3, y + LANE / 2, colours.fg, w);
      }
      if (lane.incident) this.drawCause(p, place, lane, y);
      c.restore();
    });
    c.fillStyle = colours.rule;
    c.fillRect(0, height - 1, this.width, 1);
  }

  drawCause(p, place, lane, y) {
    const { c, colours } = p;
    const severity = lane.incident[2];
    const colour = colours[severity.toLowerCase()];
    lane.incident[4].forEach(([, , start, end], mark) => {
      const x = place.x(start);
      const w = Math.max(place.x(end) - x, 5);
      const on = this.focus?.incident === lane.n && this.focus.mark === mark;
      c.lineWidth = on ? 2.5 : 1.2;
      c.strokeStyle = c.fillStyle = colour;
      // Filled, half filled, hollow: high, medium, low.
      const fill = severity === "HIGH" ? 1 : severity === "MEDIUM" ? 0.5 : 0;
      const h = LANE - 7;
      c.globalAlpha = w > 12 && end - start > (this.to - this.from) / 3 ? 0.45 : 1;
      c.fillRect(x, y + 3 + h * (1 - fill), w, h * fill);
      c.globalAlpha = 1;
      c.strokeRect(x + 0.5, y + 3.5, w - 1, h - 1);
      c.lineWidth = 1;
    });
  }

  drawRuler(p, place) {
    const { c, colours } = p;
    const span = this.to - this.from;
    const step = rulerStep(span, (place.right - place.left) / 110);
    const offset = this.model.offset;
    let mark = Math.ceil((this.from + offset) / step) * step - offset;
    c.strokeStyle = colours.rule;
    for (; mark <= this.to; mark += step) {
      const x = Math.round(place.x(mark)) + 0.5;
      c.beginPath();
      c.moveTo(x, OVERVIEW + RULER - 6);
      c.lineTo(x, p.height);
      c.stroke();
      const text = this.clock(mark, step * 4);
      const wide = c.measureText(text).width;
      if (x + wide / 2 < place.right && x - wide / 2 > 4) {
        c.fillStyle = colours.muted;
        c.fillText(text, x - wide / 2, OVERVIEW + RULER / 2 - 1);
      }
    }
  }

  /** An instant with as many digits as a range of this length needs. */
  clock(time, span) {
    const digits = Math.min(9, Math.max(0, 2 - Math.floor(Math.log10(Math.max(span, 1) / 1e9))));
    const { wall, offset } = this.model;
    if (wall) {
      const ns = BigInt(wall) + BigInt(Math.round(time));
      const date = new Date(Number(ns / 1000000n));
      const fraction = String(ns % 1000000000n).padStart(9, "0").slice(0, digits);
      return date.toISOString().slice(11, 19) + (digits ? "." + fraction : "") + " UTC";
    }
    return ((time + offset) / 1e9).toFixed(digits) + " s";
  }

  /** What fits on one page below the ruler: the first threads, and CPUs. */
  onPaper() {
    const most = 1150 - this.top.clientHeight;
    const cpus = this.rows.findIndex((row) => row.process === -2);
    const [threads, others] = cpus < 0 ? [this.rows, []] : [this.rows.slice(0, cpus), this.rows.slice(cpus)];
    const out = [];
    let y = 4;
    const take = (rows, until) => {
      for (const row of rows) {
        if (y + row.height > until) break;
        out.push({ ...row, y });
        y += row.height;
      }
    };
    take(threads, most - 20 - Math.min(others.length * 18, most / 3));
    take(others, most - 20);
    const left = this.rows.length - out.length;
    out.push({ kind: "process", process: -3, label: left ? `${left} more rows are left out on paper` : "", y, height: 20 });
    return out;
  }

  drawRows(p, rows, scrolled, shown) {
    const { c, colours } = p;
    const place = this.place();
    const m = this.model;
    this.scrolled = scrolled;
    if (this.focus) {
      const [left, right] = [this.focus.start, this.focus.end].map((time) => Math.min(Math.max(place.x(time), place.left), place.right));
      c.globalAlpha = 0.13;
      c.fillStyle = colours.select;
      c.fillRect(left, 0, Math.max(right - left, 2), shown);
      c.globalAlpha = 1;
    }
    for (const row of rows) {
      const y = row.y - scrolled;
      if (y + row.height < 0 || y > shown) continue;
      if (row.kind === "process") {
        c.fillStyle = colours.card;
        c.fillRect(0, y + 1, this.width, row.height - 3);
        const fold = this.printing ? "" : this.closed.has(row.process) ? "\u25B8 " : "\u25BE ";
        p.text(fold + row.label, 6, y + row.height / 2 - 0.5, colours.fg, this.width - 20);
        continue;
      }
      const chosen = !this.printing && this.rows[this.selected] === row;
      if (chosen) {
        c.fillStyle = colours.card;
        c.fillRect(0, y, this.width, row.height);
        c.fillStyle = colours.select;
        c.fillRect(0, y, 3, row.height);
      }
      p.text(row.label, row.alone ? 8 : 18, y + row.height / 2, colours.fg, place.left - (row.alone ? 14 : 24));
      c.save();
      c.beginPath();
      c.rect(place.left, y, place.right - place.left, row.height);
      c.clip();
      // Below what is known: a stretch that is blank and hatched is neither idle nor running.
      if (row.kind !== "gpu") {
        for (const [start, end] of lostOf(m, row)) {
          if (end >= this.from && start <= this.to) p.lost(place.x(Math.max(start, this.from)), y + 1, place.x(Math.min(end, this.to)) - place.x(Math.max(start, this.from)), row.height - 2);
        }
      }
      if (row.kind === "cpu") this.drawCpu(p, row, place, y);
      else if (row.kind === "gpu") drawCalls(p, m.works, row.at, this.from, this.to, place, y + 3, CALL, row.lanes, this.labelColour, this.labelName);
      else this.drawThread(p, row, place, y);
      c.restore();
    }
    this.drawFocus(p, rows, place, scrolled);
    c.fillStyle = colours.rule;
    c.fillRect(place.left - 1, 0, 1, shown);
  }

  /** Stretches of the view, and whether every event of them is known: columns do where they are too narrow to see. */
  *stretches() {
    const m = this.model;
    let at = this.from;
    const fine = !m.columns || m.width * this.place().scale > 2;
    for (const [start, end] of fine ? m.parts : []) {
      if (end <= at || start >= this.to) continue;
      if (start > at && m.columns) yield [at, start, false];
      yield [Math.max(start, at), Math.min(end, this.to), true];
      at = end;
    }
    if (at < this.to) yield [at, this.to, !m.columns];
  }

  drawThread(p, row, place, y) {
    const m = this.model;
    // What is named is known wherever it is, also where columns stand for all else.
    if (row.named) drawCalls(p, m.named, row.row, this.from, this.to, place, y + 2, CALL, row.named, this.labelColour, this.labelName);
    const calls = y + 2 + row.named * CALL;
    const states = y + 2 + row.above;
    for (const [from, to, exact] of this.stretches()) {
      if (exact) {
        drawStates(p, m.states, row.row, from, to, place, states, STATE);
        if (row.lanes) drawCalls(p, m.calls, row.row, from, to, place, calls, CALL, row.lanes, this.callColour, this.callName);
      } else {
        drawCells(p, m, row.row, from, to, place, states, STATE);
        const at = this.calledAt.get(row.row);
        if (at !== undefined) drawBusy(p, m.callCells, at * m.columns, m, from, to, place, calls, CALL - 1, (who) => this.callColour(who - 1));
      }
    }
  }

  drawCpu(p, row, place, y) {
    const m = this.model;
    const nameOf = (task) => m.tasks[task][0];
    for (const [from, to, exact] of this.stretches()) {
      if (exact) drawRuns(p, m.runs, row.at, from, to, place, y + 2, 14, (task) => this.colourOf(m.tasks[task][1]), nameOf);
      else drawBusy(p, m.cpuCells, row.at * m.columns, m, from, to, place, y + 2, 14, (task) => this.colourOf(m.tasks[task][1]));
    }
  }

  /** The stretch that was gone to, and the wake edge under the pointer. */
  drawFocus(p, rows, place, scrolled) {
    const { c, colours } = p;
    const left = (time) => Math.min(Math.max(place.x(time), place.left), place.right);
    if (this.focus) {
      const x = left(this.focus.start);
      const w = Math.max(left(this.focus.end) - x, 2);
      const row = rows.find((r) => r.kind === "thread" && r.row === this.focus.row);
      if (row) {
        c.strokeStyle = colours.select;
        c.lineWidth = 2;
        c.strokeRect(x, row.y - scrolled, w, row.height);
        c.lineWidth = 1;
      }
    }
    const edge = this.hover?.edge;
    const [a, b] = edge ? [edge.from, edge.to].map((task) => this.rows.find((r) => r.kind === "thread" && r.task === task)) : [];
    if (a && b) {
      const x = place.x(edge.time);
      if (x >= place.left && x <= place.right) {
        const [y0, y1] = [a.y + a.height - 6 - scrolled, b.y + b.height - 6 - scrolled];
        c.strokeStyle = c.fillStyle = colours.fg;
        c.beginPath();
        c.moveTo(x, y0);
        c.lineTo(x, y1);
        c.stroke();
        const down = y1 > y0 ? -6 : 6;
        c.beginPath();
        c.moveTo(x, y1);
        c.lineTo(x - 4, y1 + down);
        c.lineTo(x + 4, y1 + down);
        c.fill();
      }
    }
  }

  /** What the shapes and colours mean, drawn as they are drawn. */
  drawLegend(scale) {
    const used = new Set(this.model.sampled ? [OFF_CPU] : [RUNNING, RUNNABLE, BLOCKED, THROTTLED]);
    if (this.model.undivided) used.add(OFF_CPU);
    const throttled = this.model.states.state.some((s) => (s & 7) === THROTTLED) || this.model.cells?.[2].some((ns) => ns > 0);
    if (!throttled) used.delete(THROTTLED);
    const items = [
      [RUNNING, "running (full)"], [RUNNABLE, "runnable: no CPU (striped)"], [BLOCKED, "blocked (line)"], [THROTTLED, "throttled (crossed)"],
      [OFF_CPU, this.model.sampled ? "a stay off the CPU that the sample has (bar)" : "off the CPUs, blocked or runnable: not known (bar)"],
    ].filter(([state]) => used.has(state)).map(([state, text]) => [text, (p) => p.state(state, 0, 0, 26, 14)]);
    if (this.model.lost.length) items.push(["events lost: what is blank is not known (hatched)", (p) => p.lost(0, 0, 26, 14)]);
    const classes = new Set(this.model.functions.map((f) => CLASS_COLOURS[f[2]] ?? "other"));
    if (this.model.gpus.length) for (const [, name] of this.model.labels.slice(1)) if (name !== "range") classes.add(CLASS_COLOURS[name] ?? "other");
    const named = { call: this.model.gpus.length ? "launch, kernel" : "launch", copy: "copy", wait: "wait for the device", memory: "memory", other: "other" };
    if (this.model.named.start.length) items.push(["range that the program named", (p) => { p.c.fillStyle = p.colours.low; p.c.fillRect(0, 2, 26, 9); }]);
    if (this.model.calls.start.length || this.model.called.length || this.model.gpus.length) {
      for (const name of Object.keys(named).filter((n) => classes.has(n))) {
        items.push([named[name], (p) => { p.c.fillStyle = p.colours[name]; p.c.fillRect(0, 2, 26, 9); }]);
      }
    }
    if (this.model.incidents.length) {
      items.push(["cause: high filled, medium half, low hollow", (p) => {
        p.c.fillStyle = p.c.strokeStyle = p.colours.high;
        p.c.fillRect(1, 8, 24, 4);
        p.c.strokeRect(1.5, 3.5, 23, 8);
      }]);
    }
    const key = items.map((i) => i[0]).join() + JSON.stringify(this.colours) + scale;
    if (key === this.legendKey) return;
    this.legendKey = key;
    this.legend.replaceChildren(...items.map(([text, paint]) => {
      const item = document.createElement("li");
      const canvas = document.createElement("canvas");
      paint(pen(canvas, 26, 14, scale, this.colours));
      item.append(canvas, text);
      return item;
    }));
  }

  // ---- what is chosen

  fold(row) {
    if (!this.closed.delete(row.process)) this.closed.add(row.process);
    this.arrange();
    this.draw();
  }

  choose(by) {
    this.selected = Math.min(Math.max(this.selected + by, 0), this.rows.length - 1);
    const row = this.rows[this.selected];
    const view = this.scroller;
    if (row.y < view.scrollTop) view.scrollTop = row.y;
    if (row.y + row.height > view.scrollTop + view.clientHeight) view.scrollTop = row.y + row.height - view.clientHeight;
    this.draw();
    this.tell();
  }

  /** Says what is shown, and what the chosen row did meanwhile, for whoever does not see it. */
  tell() {
    const row = this.rows[this.selected];
    const span = this.to - this.from;
    let text = `${this.clock(this.from, span)} to ${this.clock(this.to, span)}`;
    if (row?.kind === "process") text = `${row.label}: Enter folds it`;
    if (row?.kind === "thread") {
      const parts = sums(this, row.row).map((ns, state) => [ns, STATES[state]]).filter(([ns]) => ns > 0);
      text += `, ${row.label}: ` + (parts.map(([ns, name]) => `${name} ${exactly(ns)}`).join(", ") || "nothing known");
    }
    if (row?.kind === "gpu") text += `, ${row.label}: at work ${exactly(atWork(this, row.at))}`;
    if (row?.kind === "cpu") text += `, ${row.label}: busy ${exactly(busy(this, row.at))}`;
    const own = row?.kind === "cpu" || row?.kind === "thread" ? row : undefined;
    if (lostOf(this.model, own).some(([start, end]) => start < this.to && end >= this.from)) text += "; events were lost in part of it";
    if (!this.focus || row) this.said.textContent = text;
  }

  /** Paper has no scroll bars, and is white. */
  print(on) {
    const root = document.documentElement;
    if (on === this.printing) return;
    if (on) this.themeBefore = root.dataset.theme;
    this.printing = on;
    if (on) root.dataset.theme = "light";
    else if (this.themeBefore) root.dataset.theme = this.themeBefore;
    else delete root.dataset.theme;
    this.drawNow();
  }
}
