// What the timeline shows at a place, in words and exact figures.

/** What there is at a place on the page, in words, with the wake edge that ended it, and what is not known there. */
function describe(timeline, row, time) {
  const told = known(timeline, row, time);
  if (!told || row.kind === "gpu") return told;
  const lost = lostAt(timeline.model, time, row).map(([, , what]) => `events lost here: ${what}`);
  return { ...told, text: [told.text, ...lost].join("\n") };
}

function known(timeline, row, time) {
  const m = timeline.model;
  if (row.kind === "process") return null;
  if (row.kind === "gpu") {
    const lines = [row.label];
    describeNested(timeline, lines, m.works, row.at, time, timeline.labelName);
    if (lines.length === 1) lines.push("at rest, or not recorded");
    return { text: lines.join("\n"), edge: null };
  }
  const list = row.kind === "cpu" ? m.runs : m.states;
  const of = row.kind === "cpu" ? row.at : row.row;
  const exact = !m.columns || m.parts.some(([start, end]) => start <= time && time < end);
  const lines = [row.label];
  let edge = null;
  if (!exact) {
    const at = Math.min(Math.floor(time / m.width), m.columns - 1);
    // Columns that cut a cell of what they are made of have a share of it.
    const about = m.about ? "about " : "";
    lines.push(`${timeline.clock(at * m.width, m.width)}, in ${duration(m.width)}:`);
    if (row.kind === "cpu") {
      const i = of * m.columns + at;
      lines.push(`busy ${about}${exactly(m.cpuCells.ns[i])}`);
      if (m.cpuCells.ns[i]) lines.push(`mostly ${m.tasks[m.cpuCells.who[i]][0]}`);
    } else {
      const sums = m.cells.map((cells) => cells[of * m.columns + at]);
      CELL_STATES.forEach((state, n) => sums[n] && lines.push(`${STATES[state]} ${about}${exactly(sums[n])}`));
      const called = timeline.calledAt.get(of);
      const i = called * m.columns + at;
      if (called !== undefined && m.callCells.ns[i]) lines.push(`in calls ${about}${exactly(m.callCells.ns[i])}, mostly ${timeline.callName(m.callCells.who[i] - 1)}`);
      describeNested(timeline, lines, m.named, of, time, timeline.labelName);
    }
    return { text: lines.join("\n"), edge };
  }
  const i = firstAfter(list, of, time);
  if (i < list.first[of + 1] && list.start[i] <= time) {
    const length = exactly(list.end[i] - list.start[i]);
    const at = timeline.clock(list.start[i], 1);
    if (row.kind === "cpu") lines.push(m.tasks[list.who[i]][0], m.processes[m.tasks[list.who[i]][1]][0], `from ${at} for ${length}`);
    else edge = describeState(timeline, lines, list, i, row, at, length);
  } else if (row.kind === "cpu") lines.push(lostAt(m, time, row).length ? "not known" : "idle, or not seen");
  if (row.kind === "thread") {
    describeNested(timeline, lines, m.named, of, time, timeline.labelName);
    describeNested(timeline, lines, m.calls, of, time, timeline.callName);
  }
  return { text: lines.join("\n"), edge };
}

function describeState(timeline, lines, list, i, row, at, length) {
  const m = timeline.model;
  const state = list.state[i] & 7;
  const [where, whom] = [list.where[i], list.whom[i]];
  const least = list.state[i] & 24 ? "at least " : "";
  let text = STATES[state];
  let edge = null;
  if (state === RUNNING && where) text += ` on CPU ${where - 1}`;
  if (state === RUNNABLE && where) text += `, waits for CPU ${where - 1}`;
  if (state === RUNNABLE && whom) text += `, mostly behind ${m.tasks[whom][0]}`;
  if (state === BLOCKED && where) text += ` in ${m.syscalls[where - 1]}`;
  if (state === BLOCKED && whom === 1) text += ", woken by an interrupt";
  if (state === BLOCKED && whom > 1) {
    text += `, woken by ${m.tasks[whom - 2][0]}`;
    edge = { from: m.rows[timeline.rowOfTask.get(whom - 2)], to: row.task, time: list.end[i] };
  }
  lines.push(text, `from ${at} for ${least}${length}`);
  if (list.state[i] & 32) lines.push("its switch-in was made up: the kernel reported none");
  return edge;
}

/** Calls, named ranges or GPU work at a place, outer ones first. */
function describeNested(timeline, lines, list, row, time, nameOf) {
  const near = 3 / timeline.place().scale;
  let told = 0;
  for (let i = firstAfter(list, row, time - near - 1); i < list.first[row + 1] && list.start[i] <= time + near && told < 4; i++) {
    if (list.end[i] + near < time) continue;
    const how = ["", ", returned an error", list === timeline.model.calls ? ", never returned" : ", never ended"][list.how[i] & 3];
    const length = (list.how[i] & 3) === 2 ? "" : ` for ${list.how[i] & 4 ? "at least " : ""}${exactly(list.end[i] - list.start[i])}`;
    lines.push(`${nameOf(list.func[i])} from ${timeline.clock(list.start[i], 1)}${length}${how}`);
    told++;
  }
}

/** Time in the view in which a GPU's stream had work: where pieces overlap, once. */
function atWork(timeline, row) {
  const list = timeline.model.works;
  let ns = 0;
  let until = timeline.from;
  for (let i = firstAfter(list, row, timeline.from); i < list.first[row + 1] && list.start[i] < timeline.to; i++) {
    const end = Math.min(list.end[i], timeline.to);
    ns += Math.max(0, end - Math.max(list.start[i], until));
    until = Math.max(until, end);
  }
  return ns;
}

/** Time by state of a row in the view; of columns that the view cuts, a share. */
function sums(timeline, row) {
  const m = timeline.model;
  const sums = [0, 0, 0, 0, 0];
  if (m.columns) {
    for (let at = Math.floor(timeline.from / m.width); at < m.columns && at * m.width < timeline.to; at++) {
      const shared = Math.min(timeline.to, (at + 1) * m.width) - Math.max(timeline.from, at * m.width);
      m.cells.forEach((cells, n) => (sums[CELL_STATES[n]] += Math.round((cells[row * m.columns + at] * shared) / m.width)));
    }
    return sums;
  }
  const list = m.states;
  for (let i = firstAfter(list, row, timeline.from); i < list.first[row + 1] && list.start[i] < timeline.to; i++) {
    sums[list.state[i] & 7] += Math.min(list.end[i], timeline.to) - Math.max(list.start[i], timeline.from);
  }
  return sums;
}

function busy(timeline, at) {
  const m = timeline.model;
  let ns = 0;
  if (m.columns) {
    for (let i = Math.floor(timeline.from / m.width); i < m.columns && i * m.width < timeline.to; i++) ns += m.cpuCells.ns[at * m.columns + i];
    return ns;
  }
  for (let i = firstAfter(m.runs, at, timeline.from); i < m.runs.first[at + 1] && m.runs.start[i] < timeline.to; i++) {
    ns += Math.min(m.runs.end[i], timeline.to) - Math.max(m.runs.start[i], timeline.from);
  }
  return ns;
}
