// How long Chromium takes from opening a report until its timeline is drawn, and a frame of it: html.mjs PLAYWRIGHT REPORT
import { statSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [playwright, report] = process.argv.slice(2);
const { chromium } = createRequire(import.meta.url)(playwright);
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
const [ready, frames] = [[], []];
for (let round = 0; round < 9; round++) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(pathToFileURL(report).href);
  await page.waitForSelector("html[data-ready]");
  ready.push(Number(await page.evaluate(() => document.documentElement.dataset.ready)));
  // Scripts of the page see nothing of it from outside: keys are pressed, and the time until the next frame is taken.
  frames.push(await page.evaluate(async () => {
    const stage = document.querySelector(".stage");
    const times = [];
    for (const key of ["0", "+", "ArrowRight", "+", "ArrowRight", "+", "ArrowLeft", "-"]) {
      const begin = performance.now();
      stage.dispatchEvent(new KeyboardEvent("keydown", { key }));
      await new Promise((done) => requestAnimationFrame(done));
      times.push(performance.now() - begin);
    }
    return Math.max(...times);
  }));
  await page.close();
}
await browser.close();
const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];
const shown = (list) => `${Math.round(median(list))} ms (${Math.round(list[0])} to ${Math.round(list.at(-1))})`;
console.log(`  ${(statSync(report).size / 1e6).toFixed(2)} MB; drawn after ${shown(ready)}, the slowest of 8 frames ${shown(frames)}, medians of ${ready.length}`);
