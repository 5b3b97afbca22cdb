// Clicks each kind of link and button of each page of the console: node crawl.mjs URL FOLDER-FOR-SCREENSHOTS
// TOKEN_ALL in the environment is a token that may do everything.
//
// A kind is a page and a label: "records: Next". Each kind is clicked once, on the first page that has it. A click
// must change the address or the page, must not lead to an error page, and must not throw. `kinds.mjs` lists all
// kinds: a kind that is not listed fails the test, and so does a listed kind that no page has.

import assert from "node:assert/strict";
import { runAll } from "./chromium.mjs";
import { ARRIVALS, DETAILS, KINDS, LAST, MAY_FAIL, SEEDS } from "./kinds.mjs";

const [base, screenshots] = process.argv.slice(2);

/** Maximum number of addresses per kind of page that are searched for links and buttons. */
const MAX_ADDRESSES_OF_PAGE = { records: 60, default: 6 };
/** Maximum number of addresses of all pages together. */
const MAX_ADDRESSES = 200;
/** Maximum time until a click has its effect, in milliseconds. */
const MAX_CLICK_MS = 60_000;
/** Maximum number of tries if the page replaces the element before the click. Figures are renewed every two seconds. */
const MAX_TRIES = 5;

/** Runs in each page. Names the kinds of its links and buttons. */
function inPage() {
  const PAGES = [
    [/^\/$/, "home"],
    [/^\/collections\/[^/]+$/, "records"],
    [/^\/collections\/[^/]+\/(\w+)$/, "$1"],
    [/^\/queues\/[^/]+$/, "queue"],
    [/^\/queues\/[^/]+\/(\w+)$/, "queue-$1"],
    [/^\/([\w-]+)$/, "$1"],
  ];
  /** Classes that identify the function of an element. */
  const ROLES = ["row", "sort", "unserved", "dismiss", "brand", "who"];
  const words = (text) => text.replace(/\s+/g, " ").trim();

  function pageOf(path) {
    const [pattern, name] = PAGES.find(([pattern]) => pattern.test(path)) ?? [/.*/, path];
    return path.replace(pattern, name);
  }

  /** Returns the name of the page, and of its state if the state has its own links and buttons. */
  function nameOf(page, path) {
    const states = [[".pin", "partition"], [".problem", "problem"], [".both", "conflict"]];
    const has = ([selector]) => page.querySelector(`main ${selector}`);
    return [pageOf(path), ...states.filter(has).map(([, name]) => name)].join(" ");
  }

  function labelOf(element) {
    const cell = element.closest("tbody td");
    const column = () => words(cell.closest("table").tHead.rows[0].cells[cell.cellIndex].textContent);
    const role = ROLES.find((name) => element.classList.contains(name));
    if (element.id) return `#${element.id.replace(/^(queue)-.*/, "$1")}`;
    if (role) return `.${role}`;
    const panel = element.closest("details.pop form");
    if (panel) return `${words(element.textContent)}, in ${words(panel.closest("details.pop").querySelector("summary").textContent)}`;
    if (element.closest("#plan")) return "plan";
    if (cell) return `cell of ${column().replace(/ \(.*\)/, "")}`;
    if (element.closest("form.jump")) return element.form.ariaLabel;
    if (element.closest("svg.buckets")) return "bar";
    if (element.closest(".examples")) return "offered partition";
    if (element.closest(".chip")) return `chip ${element.closest(".chips") ? "of a condition" : element.ariaLabel}`;
    if (element.closest(".sizes")) return `page size${element.ariaCurrent ? " (current)" : ""}`;
    if (element.closest("dd")) return `value of ${words(element.closest("div").querySelector("dt").textContent)}`;
    if (element.closest(".bar nav:first-child")) return "trail";
    if (element.closest(".problem, .pin") && element.firstElementChild?.tagName === "B") return "collection that serves it";
    return words(element.textContent);
  }

  /** Elements that are never visible if scripts run. */
  const HIDDEN = ".without-script, .without-script *, details.inline > summary";
  const hrefOf = (link) => new URL(link.getAttribute("href"), location).href;

  /** Returns the links and buttons of a page, including those in closed panels and dialogs. */
  function elementsOf(page, path) {
    const elements = Array.from(page.querySelectorAll("a[href], button, summary")).filter((element) => !element.matches(HIDDEN));
    const name = nameOf(page, path);
    return elements.map((element) => {
      const isShared = element.closest(".bar, dialog") || element.closest("body > .skip");
      return [`${isShared ? "every page" : name}: ${labelOf(element)}`, element];
    });
  }

  function noted(page, path) {
    const elements = elementsOf(page, path);
    const links = elements.map(([, element]) => element).filter((element) => element.matches("a:not([download], [href^='#'])"));
    return [[...new Set(elements.map(([kind]) => kind))], links.map(hrefOf)];
  }

  window.crawl = {
    pageOf,
    hrefOf,
    find: (kind) => elementsOf(document, location.pathname).find(([one]) => one === kind)?.[1],
    /** Returns the kinds of the current page, and the addresses of its links. */
    note: () => noted(document, location.pathname),
    /** Returns the status of the page at an address, its kinds, and the addresses of its links. */
    async noteAt(address) {
      const answer = await fetch(address, { headers: { accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      return [answer.status, ...noted(page, new URL(address).pathname)];
    },
    /** Returns the state that a click may change. */
    state() {
      const open = Array.from(document.querySelectorAll("details, dialog"), (one) => one.open);
      return JSON.stringify([location.href, open, document.querySelector("#page").innerHTML]);
    },
    /** Starts to wait until htmx has inserted a response into the current document. */
    watch() {
      this.hasSettled = false;
      document.addEventListener("htmx:afterSettle", (event) => {
        // Ignore the number of rows, which may arrive before the page itself.
        this.hasSettled ||= !event.target.closest(".place");
      });
    },
  };
}

class Crawl {
  constructor(page) {
    this.page = page;
    /** Way to each kind: an address, and the kinds to click there first. */
    this.found = new Map();
    this.clicked = new Set();
    this.looked = new Map();
    this.addresses = [];
    this.answers = [];
    this.failures = [];
    this.complained = [];
    page.on("pageerror", (error) => this.complained.push(error.message));
    page.on("response", (answer) => this.answers.push(answer));
  }

  /** Adds an address to the search, unless it has one with the same parameters, hence with equal links and buttons. */
  async look(address, isSeed = false) {
    const url = new URL(address, base);
    const isPage = url.origin === base && !/^\/(v1|docs|openapi|assets)/.test(url.pathname) && !url.pathname.endsWith("/export");
    const shape = isSeed ? url.href : `${url.pathname}?${[...new Set(url.searchParams.keys())].sort()}`;
    if (!isPage || this.looked.has(shape)) return;
    const name = await this.page.evaluate((path) => window.crawl.pageOf(path), url.pathname);
    const count = [...this.looked.values()].filter((one) => one === name).length;
    if (count >= (MAX_ADDRESSES_OF_PAGE[name] ?? MAX_ADDRESSES_OF_PAGE.default)) return;
    this.looked.set(shape, name);
    assert.ok(this.looked.size <= MAX_ADDRESSES, `more than ${MAX_ADDRESSES} addresses`);
    this.addresses.push(url.href);
  }

  async note(reach, kinds, addresses) {
    for (const kind of kinds) if (!this.found.has(kind)) this.found.set(kind, reach);
    for (const address of addresses) await this.look(address);
  }

  /** Records the kinds of the current page. */
  async noteShown(reach) {
    // Skip the description of the API, which has its own tests.
    if (new URL(this.page.url()).pathname === "/docs") return;
    await this.note(reach, ...(await this.page.evaluate(() => window.crawl.note())));
  }

  async noteAt(address) {
    const [status, ...noted] = await this.page.evaluate((address) => window.crawl.noteAt(address), address);
    assert.ok(status < 400 || MAY_FAIL.test(address), `status ${status} of ${address}`);
    await this.note({ address, clicks: [] }, ...noted);
  }

  /** Searches all pages, and clicks each of their kinds. */
  async run() {
    await this.page.goto(base + "/");
    for (const address of SEEDS) await this.look(address, true);
    for (const arrive of ARRIVALS) {
      await arrive(this.page, base);
      await this.noteShown({ arrive, clicks: [] });
    }
    for (;;) {
      for (let address = this.addresses.shift(); address; address = this.addresses.shift()) {
        await this.noteAt(address);
      }
      const open = [...this.found.keys()].filter((kind) => !this.clicked.has(kind));
      const next = open.find((kind) => !LAST.includes(kind)) ?? LAST.find((kind) => open.includes(kind));
      if (!next) return;
      this.clicked.add(next);
      await this.check(next);
    }
  }

  /** Opens the page on which a kind was found, and clicks the kind. Returns whether that leads to another page. */
  async reach(kind) {
    const { arrive, address, clicks } = this.found.get(kind);
    if (arrive) await arrive(this.page, base);
    else await this.page.goto(address, { waitUntil: "domcontentloaded" });
    for (const before of clicks) await this.click(before);
    return this.click(kind);
  }

  async reachPatiently(kind) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.reach(kind);
      } catch (error) {
        if (attempt === MAX_TRIES || !/not attached to the DOM/.test(error.message)) throw error;
      }
    }
  }

  /** Clicks a kind on the page on which it was found, and records the resulting page. */
  async check(kind) {
    const { arrive, address, clicks } = this.found.get(kind);
    this.complained.length = 0;
    try {
      if (!(await this.reachPatiently(kind))) return;
      assert.deepEqual(this.complained, [], "the page has no error");
    } catch (error) {
      this.failures.push(`${kind}, on ${address ?? arrive.name}: ${error.message}`);
      return;
    }
    const shown = this.answers.filter((answer) => answer.request().isNavigationRequest()).at(-1);
    const isPosted = shown?.request().method() === "POST" && shown.status() !== 303;
    await this.noteShown(isPosted ? { arrive, address, clicks: [...clicks, kind] } : { address: this.page.url(), clicks: [] });
  }

  /** Clicks a kind and checks the effect. Returns whether the effect is another page. */
  async click(kind) {
    const { page } = this;
    const { fill = {}, select = {}, status = 200, to } = DETAILS[kind] ?? {};
    const element = (await page.evaluateHandle((kind) => window.crawl.find(kind), kind)).asElement();
    assert.ok(element, "the element is gone");
    await this.open(element);
    for (const [selector, value] of Object.entries(fill)) await page.fill(selector, value);
    for (const [selector, value] of Object.entries(select)) await page.selectOption(selector, value);
    const { href, download, isSkip, isForm } = await element.evaluate((one) => ({
      href: one.hasAttribute("href") && window.crawl.hrefOf(one),
      download: one.hasAttribute("download"),
      isSkip: one.classList.contains("skip"),
      isForm: one.tagName === "BUTTON" && one.form && one.form.method !== "dialog",
    }));
    if (isSkip) {
      await element.focus();
      await page.keyboard.press("Enter");
      assert.equal(await page.evaluate(() => document.activeElement.id), new URL(href).hash.slice(1), "the focus moves");
      return false;
    }
    if (download) {
      const [file] = await Promise.all([page.waitForEvent("download", { timeout: MAX_CLICK_MS }), element.click()]);
      assert.equal(await file.failure(), null);
      return false;
    }
    const before = await page.evaluate(() => (window.crawl.watch(), window.crawl.state()));
    this.answers = [];
    await element.click({ timeout: MAX_CLICK_MS });
    if (href || isForm) {
      await page.waitForFunction(() => window.crawl?.hasSettled !== false && document.readyState === "complete", null, { timeout: MAX_CLICK_MS });
    }
    // Also wait for the address, because the figures that a page requests every two seconds cause
    // settle events too.
    if (href && !to) await page.waitForURL((url) => landed(url) === landed(href), { timeout: MAX_CLICK_MS });
    const bad = this.answers.filter((answer) => answer.status() >= 400 && answer.status() !== status);
    assert.ok(bad.length === 0, bad.map((answer) => `${answer.status()} ${answer.url()}`).join(", "));
    if (status !== 200) assert.ok(this.answers.some((answer) => answer.status() === status), `a request has status ${status}`);
    if (to) assert.match(page.url(), to);
    else if (href) {
      assert.ok(this.answers.some((answer) => answer.url() === href), `the link is followed: ${href}`);
      assert.equal(landed(page.url()), landed(href), "the link leads where it says");
    } else assert.notEqual(await page.evaluate(() => window.crawl.state()), before, "the click changes the page");
    return href || isForm;
  }

  /** Opens the panels and the dialog that contain an element. */
  async open(element) {
    const dialog = await element.evaluate((one) => one.closest("dialog")?.id);
    if (dialog) await this.page.click(`[data-open="${dialog}"]`);
    const count = await element.evaluate((one) => {
      window.panels = [];
      for (let at = one.parentElement; at; at = at.parentElement) {
        if (at.tagName === "DETAILS" && !at.open && at.querySelector("summary") !== one) window.panels.unshift(at.querySelector("summary"));
      }
      return window.panels.length;
    });
    for (let at = 0; at < count; at += 1) {
      await (await this.page.evaluateHandle((at) => window.panels[at], at)).asElement().click();
    }
  }
}

/** Returns an address without the parameters that the server removes when it redirects to the requested page. */
function landed(address) {
  const url = new URL(address);
  url.searchParams.delete("was");
  url.hash = "";
  return url.href;
}

const options = { httpCredentials: { username: "ada", password: process.env.TOKEN_ALL }, complaints: /status of (401|404|409)/ };

await runAll([
  {
    name: "each kind of link and button does what it says",
    options,
    async run(page, context) {
      await context.addInitScript(inPage);
      const crawl = new Crawl(page);
      await crawl.run();
      console.log(`        ${crawl.found.size} kinds, ${crawl.looked.size} addresses`);
      assert.ok(crawl.failures.length === 0, crawl.failures.join("\n"));
      const listed = Object.entries(KINDS).flatMap(([page, labels]) => labels.map((label) => `${page}: ${label}`));
      const found = [...crawl.found.keys()];
      assert.deepEqual(found.filter((kind) => !listed.includes(kind)), [], "kinds.mjs lists each kind that a page has");
      assert.deepEqual(listed.filter((kind) => !found.includes(kind)), [], "a page has each kind that kinds.mjs lists");
    },
  },
], screenshots);
