// The page: tables that can be sorted, light and dark, links into the timeline.

/** Gives every column of a table a button that sorts by it: by exact figures where cells have them. What is unknown stays last. */
function makeSortable(table) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const original = [...body.rows];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const numeric = head.classList.contains("n");
      const before = head.getAttribute("aria-sort");
      // Figures with the largest first, names from A on.
      const next = before === "none" ? (numeric ? "descending" : "ascending") : before === "descending" ? "ascending" : "descending";
      heads.forEach((other) => other.setAttribute("aria-sort", other === head ? next : "none"));
      const value = (row) => {
        const cell = row.cells[column];
        if (!numeric) return cell.textContent.trim().toLowerCase();
        return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
      };
      const sign = next === "ascending" ? 1 : -1;
      const rows = original.map((row) => [value(row), row]);
      rows.sort(([a], [b]) => (a === null ? (b === null ? 0 : 1) : b === null ? -1 : a < b ? -sign : a > b ? sign : 0));
      body.append(...rows.map(([, row]) => row));
    });
  });
}

/** Shows the first rows of a long table, and all of them at the push of a button. On paper it is whole. */
function makeFoldable(table) {
  const rows = table.tBodies[0].rows.length;
  if (rows <= 28) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "more";
  const fold = (on) => {
    table.classList.toggle("folded", on);
    button.textContent = on ? `Show all ${rows}` : "Show 25";
    button.setAttribute("aria-expanded", String(!on));
  };
  button.addEventListener("click", () => fold(!table.classList.contains("folded")));
  fold(true);
  table.parentElement.after(button);
}

/** A button that turns light to dark and back. */
function makeThemeButton(bar, changed) {
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "theme";
  const label = () => (button.textContent = isDark() ? "Light" : "Dark");
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  label();
  bar.append(button);
}

document.querySelectorAll("table.sortable").forEach(makeSortable);
document.querySelectorAll("table.sortable").forEach(makeFoldable);
document.querySelectorAll(".scroll").forEach((box) => {
  // What scrolls can be reached by the keyboard.
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", box.querySelector("caption")?.textContent ?? "table");
});

let timeline = null;
makeThemeButton(document.querySelector(".bar"), () => timeline?.draw());

/** Follows a link into the timeline: #see-CAUSE-PLACE. */
function follow() {
  const found = /^#see-(\d+)-(\d+)$/.exec(location.hash);
  if (!found || !timeline?.goTo(Number(found[1]), Number(found[2]))) return;
  document.getElementById("timeline").scrollIntoView({ block: "start" });
  timeline.stage.focus({ preventScroll: true });
}

const here = document.getElementById("timeline-here");
try {
  const data = document.getElementById("data");
  timeline = new Timeline(await readModel(data), here);
  data.remove();
  timeline.drawNow();
  document.documentElement.dataset.ready = String(Math.ceil(performance.now()));
  follow();
} catch (problem) {
  const text = document.createElement("p");
  text.textContent = `The timeline cannot be drawn by this browser (${problem}); everything else on this page is whole.`;
  here.append(text);
  throw problem;
}
addEventListener("hashchange", follow);
// A link that was followed before leads there again.
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element && event.target.closest("a[href^='#see-']");
  if (link && link.getAttribute("href") === location.hash) follow();
});
