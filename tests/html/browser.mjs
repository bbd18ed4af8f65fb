// Opens a report in Chromium, does what a person does with it, and prints what came of it as one line of JSON.
// browser.mjs PLAYWRIGHT CHROMIUM REPORT [FOLDER FOR SCREENSHOTS]
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [playwright, executablePath, report, shots] = process.argv.slice(2);
const { chromium } = createRequire(import.meta.url)(playwright);
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath, args });
const url = pathToFileURL(report).href;
const seen = { console: [], errors: [], requests: [] };
const told = { ...seen };

async function open(options, hash = "") {
  const context = await browser.newContext({ colorScheme: "light", ...options });
  const page = await context.newPage();
  page.on("console", (m) => seen.console.push(`${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => seen.errors.push(e.message));
  page.on("request", (r) => r.url() !== url && r.url() !== url + hash && seen.requests.push(r.url()));
  page.on("dialog", (d) => (seen.errors.push("dialog " + d.message()), d.dismiss()));
  await page.goto(url + hash);
  if (options.javaScriptEnabled !== false) await page.waitForSelector("html[data-ready]", { timeout: 30000 });
  return page;
}

/** Waits until what was asked for has been drawn: drawing happens in the next frame. */
const drawn = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30)))));

/** What is on a canvas: a digest, and the share of pixels that are not its background. */
async function canvas(page, which = "body") {
  await drawn(page);
  return page.evaluate((name) => {
    const shown = document.querySelector("canvas." + name);
    // Read from a copy: the page's own canvas stays as it is.
    const copy = Object.assign(document.createElement("canvas"), { width: shown.width, height: shown.height });
    const context = copy.getContext("2d", { willReadFrequently: true });
    context.drawImage(shown, 0, 0);
    const words = new Uint32Array(context.getImageData(0, 0, copy.width, copy.height).data.buffer);
    const ground = words[words.length - 1];
    let filled = 0;
    let digest = 2166136261;
    for (const word of words) {
      filled += word !== ground;
      digest = Math.imul(digest ^ word, 16777619);
    }
    return { digest: digest >>> 0, filled: filled / words.length };
  }, which);
}
const range = (page) => page.evaluate(() => document.querySelector(".range").textContent);
const state = async (page) => ({ range: await range(page), ...(await canvas(page)) });
/** What is shown after an action that changes the range. A browser takes its time to tell the page of a new hash. */
async function moved(page, action) {
  const before = await range(page);
  await action();
  // Where nothing moves, the state says so.
  const elsewhere = (was) => document.querySelector(".range").textContent !== was;
  await page.waitForFunction(elsewhere, before, { timeout: 10000 }).catch(() => {});
  return state(page);
}
/** Widths on the page where rows have a scrollbar that takes room, as a mouse has it: what is above them, and the rows as shown and as drawn. */
async function widths() {
  const classic = await chromium.launch({ executablePath, args, ignoreDefaultArgs: ["--hide-scrollbars"] });
  const page = await classic.newPage({ viewport: { width: 1280, height: 500 } });
  await page.goto(url);
  await page.waitForSelector("html[data-ready]", { timeout: 30000 });
  const found = (await page.$("canvas.body")) && (await drawn(page), await page.evaluate(() => {
    const [top, body, rows] = ["canvas.top", "canvas.body", ".rows"].map((name) => document.querySelector(name));
    const wide = (element) => element.getBoundingClientRect().width;
    return { bar: rows.offsetWidth - rows.clientWidth, top: wide(top), body: wide(body), drawn: body.width / devicePixelRatio, topDrawn: top.width / devicePixelRatio };
  }));
  await classic.close();
  return found;
}
const scrollWidth = (page) => page.evaluate(() => document.documentElement.scrollWidth);

// Wide, light: everything that the pointer and the keys do.
const page = await open({ viewport: { width: 1280, height: 900 } });
told.ready_ms = Number(await page.evaluate(() => document.documentElement.dataset.ready));
told.scroll_width = await scrollWidth(page);
told.headings = await page.evaluate(() => [...document.querySelectorAll("h1, h2")].map((h) => h.textContent));
told.verdict = await page.textContent(".verdict");
told.tables = await page.evaluate(() => [...document.querySelectorAll("table")].every((t) => t.caption && t.tHead.querySelector("th[scope=col]")));
const figures = (selector) => page.evaluate((s) => [...document.querySelectorAll(s + " tbody tr")].map((row) =>
  [row.cells[0].textContent, ...[...row.cells].map((c) => (c.dataset.v === undefined ? null : Number(c.dataset.v)))]), selector);
told.processes = await figures("#processes");
told.phases = await figures("#phases");
told.calls = await figures("#calls");
told.cpus = await figures("#cpus");
told.lost = await page.evaluate(() => [...document.querySelectorAll(".incident strong")].map((s) => Number(s.dataset.v)));
told.histograms = await page.evaluate(() => [...document.querySelectorAll(".histogram")].map((svg) =>
  [...svg.querySelectorAll("rect")].reduce((sum, rect) => sum + Number(rect.dataset.count), 0)));
told.counters = await page.evaluate(() => [...document.querySelectorAll(".counter svg")].map((s) => s.getAttribute("aria-label")));
told.whole = await state(page);
if (await page.$("canvas.body")) {
  await page.evaluate(() => document.querySelector(".stage").scrollIntoView());
  const top = await page.locator("canvas.top").boundingBox();
  const at = await page.locator(".stage").boundingBox();
  const x = at.x + at.width * 0.6;
  await page.mouse.move(x, at.y + 20);
  told.wheel = await moved(page, () => page.mouse.wheel(0, -600));
  await page.mouse.move(x, at.y + top.height + 30);
  told.drag = await moved(page, async () => {
    await page.mouse.down();
    await page.mouse.move(x - 200, at.y + top.height + 30, { steps: 4 });
    await page.mouse.up();
  });
  await page.locator(".stage").focus();
  told.plus = await moved(page, () => page.keyboard.press("+"));
  told.right = await moved(page, () => page.keyboard.press("ArrowRight"));
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.waitForTimeout(350);
  told.said = await page.textContent(".said");
  told.zero = await moved(page, () => page.keyboard.press("0"));
}

// A link of a cause leads to its place, where the pointer is told what there is.
const link = page.locator("a[href^='#see-']");
told.links = await link.count();
if (told.links) {
  told.jump = { ...(await moved(page, () => link.nth(0).click())), said: await page.textContent(".said") };
  const last = await page.evaluate(() => [...document.querySelectorAll(".incident")][0].querySelectorAll("a[href^='#see-']").length - 1);
  told.jump_last = await moved(page, () => page.locator(`a[href='#see-0-${last}']`).click());
  const place = await page.evaluate(() => {
    const stage = document.querySelector(".stage").getBoundingClientRect();
    return { x: stage.x, y: stage.y, width: stage.width, height: stage.height };
  });
  // The stretch is in the middle; its row is somewhere below the ruler.
  told.tips = [];
  for (let y = 4; y < place.height; y += 9) {
    await page.mouse.move(place.x + 190 + (place.width - 190) / 2, place.y + y);
    const tip = await page.evaluate(() => (document.querySelector(".tip").hidden ? "" : document.querySelector(".tip").textContent));
    if (tip && !told.tips.includes(tip)) told.tips.push(tip);
  }
  if (shots) await page.screenshot({ path: shots + "/jump.png" });
}

// What the shapes mean, and what the pointer is told in the middle of the picture.
told.legend = await page.evaluate(() => [...document.querySelectorAll(".key li")].map((item) => item.textContent));
if (await page.$("canvas.body")) {
  await page.locator(".stage").focus();
  await page.keyboard.press("0");
  await page.evaluate(() => document.querySelector(".stage").scrollIntoView());
  await drawn(page);
  if (shots) await page.screenshot({ path: shots + "/middle.png" });
  const stage = await page.locator(".stage").boundingBox();
  told.middle = [];
  for (let y = 4; y < stage.height; y += 9) {
    await page.mouse.move(stage.x + 190 + (stage.width - 190) / 2, stage.y + y);
    const tip = await page.evaluate(() => (document.querySelector(".tip").hidden ? "" : document.querySelector(".tip").textContent));
    if (tip && !told.middle.includes(tip)) told.middle.push(tip);
  }
}

// A table is sorted by the mouse and by the keyboard.
const header = page.locator("#processes thead button").nth(2);
if (await header.count()) {
  const column = () => page.evaluate(() => [...document.querySelectorAll("#processes tbody tr")].map((r) => r.cells[2].dataset.v ?? null));
  const sort = () => page.evaluate(() => document.querySelectorAll("#processes thead th")[2].getAttribute("aria-sort"));
  await header.click();
  told.sorted = { first: { by: await sort(), column: await column() } };
  await header.focus();
  await page.keyboard.press("Enter");
  told.sorted.second = { by: await sort(), column: await column() };
}

// Dark by the button.
const colours = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
told.light = { ground: await colours(), digest: (await canvas(page)).digest };
await page.locator("button.theme").click();
told.dark = { ground: await colours(), digest: (await canvas(page)).digest };
told.hacked = await page.evaluate(() => window.hacked ?? null);
told.elements = await page.evaluate(() => document.querySelectorAll("img, iframe, object, embed, link, base, form, body script:not(#data):not([type=module])").length);
// On paper.
const paper = await page.pdf({ format: "A4", printBackground: true });
told.pdf = { bytes: paper.length, pages: (paper.toString("latin1").match(/\/Type\s*\/Page\b/g) ?? []).length };
told.after_print = await page.evaluate(() => document.documentElement.dataset.theme);

// A phone, dark by its settings.
const phone = await open({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, colorScheme: "dark", hasTouch: true });
told.phone = { scroll_width: await scrollWidth(phone), ground: await phone.evaluate(() => getComputedStyle(document.body).backgroundColor) };
const before = await range(phone);
const session = await phone.context().newCDPSession(phone);
await phone.evaluate(() => document.querySelector(".stage").scrollIntoView());
const stage = await phone.locator(".stage").boundingBox();
const touch = (type, ...xs) => session.send("Input.dispatchTouchEvent", { type, touchPoints: xs.map((x, id) => ({ x, y: stage.y + 30, id })) });
await touch("touchStart", stage.x + 200, stage.x + 240);
for (let by = 10; by <= 60; by += 10) await touch("touchMove", stage.x + 200 - by, stage.x + 240 + by);
await touch("touchEnd");
await phone.waitForTimeout(150);
told.phone.pinch = [before, await range(phone)];
if (shots) {
  await phone.screenshot({ path: shots + "/phone.png", fullPage: true });
  for (const colorScheme of ["light", "dark"]) {
    const wide = await open({ viewport: { width: 1280, height: 900 }, colorScheme });
    await wide.screenshot({ path: `${shots}/wide-${colorScheme}.png`, fullPage: true });
  }
}

// Without scripts the words and tables are there.
const plain = await open({ viewport: { width: 1280, height: 900 }, javaScriptEnabled: false });
told.plain = await plain.locator("body").innerText();
await browser.close();
told.widths = await widths();
console.log(JSON.stringify(told));
