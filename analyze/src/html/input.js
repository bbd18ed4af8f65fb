// What the pointer and the keys do in the timeline.

/** Where an event of the pointer is: a time, and a row or a lane above them. */
function point(timeline, event) {
  const box = timeline.stage.getBoundingClientRect();
  const x = event.clientX - box.left;
  const y = event.clientY - box.top;
  const place = timeline.place();
  const topHeight = timeline.top.clientHeight;
  if (y < topHeight) {
    const lane = timeline.topLanes[Math.floor((y - OVERVIEW - RULER) / LANE)];
    return { x, y, place, time: place.time(x), lane, top: true };
  }
  const at = y - topHeight + timeline.scrolled;
  const row = timeline.rows.find((r) => r.y <= at && at < r.y + r.height);
  return { x, y, place, time: place.time(x), row };
}

/** Says beside the pointer what is under it. */
function pointed(timeline, { x, y, place, time, lane, row, top }) {
  let told = null;
  const near = 4 / place.scale;
  if (top && lane?.lost) {
    const lost = lostAt(timeline.model, time);
    if (lost.length) told = { text: `${lane.label}\n${lost.map(([, , what]) => what).join("\n")}` };
  } else if (top && lane?.incident) {
    const mark = lane.incident[4].find(([, , start, end]) => start - near <= time && time <= end + near);
    told = { text: mark ? `${lane.label}\n${mark[0]}` : `${lane.label}\n${lane.incident[3]}` };
  } else if (top && lane?.phases) {
    const phase = lane.phases.find(([, , , start, end]) => start <= time && time <= end);
    if (phase) told = { text: `${lane.label}\nphase ${phase[0]}: ${phase[1]}\n${exactly(phase[4] - phase[3])}` };
  } else if (row && x >= place.left) told = describe(timeline, row, time);
  else if (row) told = { text: row.label };
  const before = timeline.hover?.edge;
  timeline.hover = told;
  timeline.tip.hidden = !told;
  if (told) {
    timeline.tip.textContent = told.text;
    timeline.tip.style.left = Math.max(4, Math.min(x + 14, timeline.width - timeline.tip.offsetWidth - 6)) + "px";
    const below = y + 16 + timeline.tip.offsetHeight < timeline.stage.clientHeight;
    timeline.tip.style.top = (below ? y + 16 : Math.max(2, y - timeline.tip.offsetHeight - 10)) + "px";
  }
  if (before || told?.edge) timeline.draw();
}

/** Takes in drags, pinches, wheels, clicks and keys. */
function listen(timeline) {
  const stage = timeline.stage;
  const fingers = new Map();
  let moved = 0;
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !(event.target instanceof HTMLCanvasElement)) return;
    fingers.set(event.pointerId, event);
    moved = 0;
  });
  stage.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) {
      if (event.pointerType !== "touch") pointed(timeline, point(timeline, event));
      return;
    }
    const place = timeline.place();
    const others = [...fingers.values()].filter((f) => f.pointerId !== event.pointerId);
    fingers.set(event.pointerId, event);
    moved += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
    if (others.length) {
      const [other] = others;
      const [was, now] = [Math.abs(before.clientX - other.clientX), Math.abs(event.clientX - other.clientX)];
      if (was > 8 && now > 8) timeline.zoom(was / now, place.time(point(timeline, other).x));
    } else if (moved > 4) {
      if (!stage.hasPointerCapture(event.pointerId)) stage.setPointerCapture(event.pointerId);
      timeline.tip.hidden = true;
      timeline.canvas.classList.add("dragging");
      timeline.pan((before.clientX - event.clientX) / (place.right - place.left));
    }
  });
  const lift = (event) => {
    if (!fingers.delete(event.pointerId)) return;
    timeline.canvas.classList.remove("dragging");
    if (moved <= 4 && event.type === "pointerup") click(timeline, event);
  };
  stage.addEventListener("pointerup", lift);
  stage.addEventListener("pointercancel", lift);
  stage.addEventListener("pointerleave", () => {
    if (!fingers.size) {
      timeline.tip.hidden = true;
      timeline.hover = null;
    }
  });
  stage.addEventListener("dblclick", (event) => {
    const at = point(timeline, event);
    if (!at.row || at.row.kind !== "process") timeline.zoom(0.35, at.time);
  });
  stage.addEventListener("wheel", (event) => {
    const at = point(timeline, event);
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    if (event.ctrlKey || event.metaKey || (at.top && !sideways)) timeline.zoom(Math.exp(event.deltaY * (event.ctrlKey ? 0.006 : 0.003)), at.time);
    else if (sideways) timeline.pan((event.deltaX || event.deltaY) / (at.place.right - at.place.left));
    else return;
    event.preventDefault();
  }, { passive: false });
  timeline.scroller.addEventListener("scroll", () => timeline.draw());
  stage.addEventListener("keydown", (event) => press(timeline, event));
  addEventListener("beforeprint", () => timeline.print(true));
  addEventListener("afterprint", () => timeline.print(false));
}

function click(timeline, event) {
  const at = point(timeline, event);
  timeline.stage.focus({ preventScroll: true });
  if (at.lane?.incident) {
    const near = 5 / at.place.scale;
    const mark = at.lane.incident[4].findIndex(([, , start, end]) => start - near <= at.time && at.time <= end + near);
    timeline.goTo(at.lane.n, Math.max(mark, 0));
  } else if (at.row?.kind === "process") timeline.fold(at.row);
  else if (at.row) {
    timeline.selected = timeline.rows.indexOf(at.row);
    timeline.draw();
    timeline.tell();
  }
  if (event.pointerType === "touch") pointed(timeline, at);
}

function press(timeline, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const acts = {
    "+": () => timeline.zoom(0.5), "=": () => timeline.zoom(0.5), w: () => timeline.zoom(0.5), "-": () => timeline.zoom(2), s: () => timeline.zoom(2),
    ArrowLeft: () => timeline.pan(-0.2), a: () => timeline.pan(-0.2), ArrowRight: () => timeline.pan(0.2), d: () => timeline.pan(0.2),
    0: () => timeline.show(0, timeline.model.len), Home: () => timeline.pan(-1e9), End: () => timeline.pan(1e9),
    n: () => timeline.step(1), p: () => timeline.step(-1), ArrowDown: () => timeline.choose(1), ArrowUp: () => timeline.choose(-1),
    Enter: () => timeline.rows[timeline.selected]?.kind === "process" && timeline.fold(timeline.rows[timeline.selected]),
    Escape: () => { timeline.focus = null; timeline.selected = -1; timeline.tip.hidden = true; timeline.draw(); },
  };
  const act = acts[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}
