// Shared parts of the scripts in this folder: a Chromium that reports its errors, and checks of any
// page.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Takes a screenshot. Playwright would hide the caret by an inline style, which the policy forbids. */
export const shoot = (page, path) => page.screenshot({ path, caret: "initial" });

export async function accessible(page, what) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const told = found.violations.map((violation) =>
    `${violation.id}: ${violation.help}\n` + violation.nodes.map((node) => `    ${node.html}\n    ${node.failureSummary}`).join("\n"));
  assert.equal(told.join("\n"), "", `${what} is accessible`);
}

export async function fits(page, what) {
  const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok(wide <= window, `${what}: ${wide} px in a window of ${window} px`);
}

/**
 * Runs tests, each `{ name, options, run }` with its own page, and ends the process. A test fails if the browser
 * reports an error or a warning, including violations of the content security policy. The option `complaints` of a
 * test matches the messages that it expects.
 */
export async function runAll(tests, screenshots) {
  const browser = await launch();
  let failed = 0;
  for (const { name, options: { complaints, ...options }, run } of tests) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce", ...options });
    const complained = [];
    const listen = (page) => {
      page.setDefaultTimeout(60_000);
      page.on("pageerror", (error) => complained.push(error.message));
      page.on("console", (message) => {
        const isAnswer = /status of 400/.test(message.text());
        if (["error", "warning"].includes(message.type()) && !isAnswer && !complaints?.test(message.text())) complained.push(message.text());
      });
    };
    context.on("page", listen);
    const page = await context.newPage();
    try {
      await run(page, context);
      assert.deepEqual(complained, [], "the browser has nothing to complain about");
      console.log(`ok      ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${name}\n${error.stack}\n${complained.join("\n")}`);
      await shoot(page, `${screenshots}/failed-${failed}.png`).catch(() => {});
    }
    await context.close();
  }
  await browser.close();
  process.exit(failed ? 1 : 0);
}

function launch() {
  const executablePath = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
    .find((path) => path && existsSync(path));
  if (!executablePath) {
    console.error("there is no Chromium: `scripts/test install`, or name one in CHROMIUM");
    process.exit(2);
  }
  return chromium.launch({
    executablePath,
    args: [
      "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync",
    ],
  });
}
