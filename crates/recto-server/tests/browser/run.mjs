// Drives the console in headless Chromium: node run.mjs URL FOLDER-FOR-SCREENSHOTS

import assert from "node:assert/strict";
import { accessible, fits, runAll, shoot } from "./chromium.mjs";

const [base, screenshots] = process.argv.slice(2);
const UNITED = "/collections/flights?filter=carrier%20%3D%20%22UA%22";
const PLACES = "/collections/places?filter=country%20%3D%20%22CH%22";

const tests = [];
const test = (name, options, run) => tests.push({ name, options, run });

/** Returns the text of each row, with `|` between cells. */
const firsts = (page) => page.$$eval("tbody tr", (rows) => rows.map((row) => row.innerText.replaceAll("\t", "|")));
const turned = (page, act) => swapped(page, act);

/** Performs an action that swaps the page, and waits until the page has settled. */
async function swapped(page, act) {
  await page.evaluate(() => {
    window.settled = new Promise((done) => {
      document.addEventListener("htmx:afterSettle", function settle(event) {
        // Ignore the number of rows, which may arrive before the page itself.
        if (event.target.closest(".place")) return;
        document.removeEventListener("htmx:afterSettle", settle);
        done();
      });
    });
  });
  await act();
  await page.evaluate(() => window.settled);
}

/** Performs an action that leads to another page. */
const arrives = (page, act) => Promise.all([page.waitForNavigation(), act()]);

test("browse from the list to a page", {}, async (page) => {
  const home = await page.goto(base + "/");
  assert.match(home.headers()["content-security-policy"], /^default-src 'self';/);
  await shoot(page, `${screenshots}/home.png`);
  await swapped(page, () => page.click("h2 a:text-is('flights')"));
  await shoot(page, `${screenshots}/partition.png`);
  assert.match(await page.textContent(".pin h2"), /Which carrier/);
  const offered = () => page.$$eval("#partitions a", (all) => all.map((one) => one.innerText));
  assert.deepEqual(await offered(), ["AA", "UA"]);
  // The list follows the typed text, and the field keeps the focus.
  await swapped(page, () => page.locator(".pin input[name='is.carrier']").pressSequentially("u"));
  assert.deepEqual(await offered(), ["UA"]);
  assert.equal(await page.evaluate(() => document.activeElement.id), "pin-carrier");
  assert.equal(page.url(), base + "/collections/flights");
  await swapped(page, () => page.fill(".pin input[name='is.carrier']", "UA"));
  await swapped(page, () => page.keyboard.press("Enter"));
  assert.equal(page.url(), base + UNITED);
  assert.equal((await firsts(page)).length, 50);
  assert.equal(await page.title(), "flights · Recto");
});

test("turn pages both ways without moving anything, and share them", {}, async (page, context) => {
  await page.goto(`${base}${UNITED}&page_size=20`);
  const first = await firsts(page);
  const place = async () => JSON.stringify(await (await page.$(".rows")).boundingBox());
  await page.locator(".place", { hasText: /^rows 1 to 20 of 1,000 / }).waitFor();
  const at = await place();
  await turned(page, () => page.click("#turn-n"));
  const second = await firsts(page);
  assert.equal(await place(), at);
  assert.notDeepEqual(second, first);
  assert.equal(await page.evaluate(() => document.activeElement.id), "turn-n", "the focus stays");
  assert.equal(await page.textContent("#status"), "20 rows");
  await page.locator(".place", { hasText: /^rows 21 to 40 of 1,000 / }).waitFor();
  const other = await context.newPage();
  await other.goto(page.url());
  assert.deepEqual(await firsts(other), second, "an address is shared");
  await turned(page, () => page.click("#turn-p"));
  assert.deepEqual(await firsts(page), first);
  await turned(page, () => page.click("#turn-l"));
  assert.equal(await page.getAttribute("#turn-n", "aria-disabled"), "true");
  await turned(page, () => page.click("#turn-f"));
  assert.deepEqual(await firsts(page), first);
  await page.goBack();
  await page.waitForSelector("#turn-n[aria-disabled]");
});

test("filter by a panel, take a condition away, and by text", {}, async (page) => {
  await page.goto(base + UNITED);
  await page.click("#open-filter");
  await shoot(page, `${screenshots}/filter.png`);
  await page.selectOption("select[name='op.time_hour']", "<");
  await page.fill("input[name='is.time_hour']", "2013-01-02");
  await swapped(page, () => page.click(".pop[open] button[type=submit]"));
  assert.equal((await firsts(page)).length, 24);
  assert.equal(await page.locator(".chips .chip").count(), 2);
  await swapped(page, () => page.click("a[aria-label^='Remove time_hour']"));
  assert.equal((await firsts(page)).length, 50);
  await page.click("summary:text('Text')");
  const rows = await firsts(page);
  await page.fill("#filter-text", 'carrier = "UA" AND dest ! 1');
  await swapped(page, () => page.keyboard.press("Enter"));
  assert.equal(await page.textContent("mark"), "!");
  assert.equal(await page.inputValue("#filter-text"), 'carrier = "UA" AND dest ! 1');
  assert.deepEqual(await firsts(page), rows, "the page stays below the error");
  await shoot(page, `${screenshots}/filter-error.png`);
  await accessible(page, "an error");
});

test("sort by what a view serves; the others say what is missing", {}, async (page) => {
  await page.goto(base + UNITED);
  await swapped(page, () => page.click("th a.sort:text('time_hour')"));
  assert.match((await firsts(page))[0], /^2013-01-01 00:00:00/);
  await swapped(page, () => page.click("th a.unserved:text('dep_delay')"));
  assert.match(await page.textContent(".problem"), /\[collection\.flights/);
  assert.match((await firsts(page))[0], /^2013-01-01 00:00:00/);
  await shoot(page, `${screenshots}/missing-view.png`);
});

test("jump to a value", {}, async (page) => {
  await page.goto(base + UNITED);
  await page.fill("#jump", "2013-01-05 12:00");
  await swapped(page, () => page.keyboard.press("Enter"));
  assert.match((await firsts(page))[0], /^2013-01-05 12:00:00/);
  await page.fill("#jump", "2013-01-04");
  await swapped(page, () => page.keyboard.press("Enter"));
  const day = await firsts(page);
  assert.match(day[0], /^2013-01-04 23:00:00/);
  assert.equal(await page.inputValue("#jump"), "2013-01-04");
  await page.fill("#jump", "noon");
  await swapped(page, () => page.keyboard.press("Enter"));
  assert.equal(await page.inputValue("#jump"), "noon");
  assert.match(await page.textContent(".problem"), /time_hour/);
  await shoot(page, `${screenshots}/jump-refused.png`);
});

test("the key stays when the table is scrolled sideways, and the table stays there on the next page", { viewport: { width: 640, height: 700 } }, async (page) => {
  await page.goto(`${base}${UNITED}&page_size=20`);
  const region = page.locator("#rows");
  assert.ok(await region.evaluate((one) => one.classList.contains("more")), "there is more to the right");
  const left = () => region.evaluate((one) => one.scrollLeft);
  const key = async () => (await page.locator("tbody tr td").first().boundingBox()).x;
  const at = await key();
  await region.evaluate((one) => one.scrollTo(120, 0));
  await page.waitForFunction(() => document.querySelector("#rows").classList.contains("scrolled"));
  assert.equal(await key(), at);
  await shoot(page, `${screenshots}/scrolled.png`);
  await turned(page, () => page.keyboard.press("n"));
  assert.equal(await left(), 120);
  await turned(page, () => page.keyboard.press("p"));
  assert.equal(await left(), 120);
});

test("a row is opened wherever it is clicked", {}, async (page) => {
  await page.goto(base + UNITED);
  await swapped(page, () => page.locator("tbody tr").nth(2).locator("td").nth(4).click());
  assert.match(page.url(), /\/record\?key=/);
});

test("the plan says how and at what cost", {}, async (page) => {
  await page.goto(base + UNITED);
  await page.click("#plan summary");
  const plan = await page.textContent("#plan");
  for (const word of ["scan", "carrier = \"UA\"", "51 rows", "time_hour desc, flight asc"]) {
    assert.ok(plan.includes(word), `${word} is in ${plan}`);
  }
  await shoot(page, `${screenshots}/plan.png`);
  await turned(page, () => page.keyboard.press("n"));
  assert.ok(await page.evaluate(() => document.querySelector("#plan").open), "it stays open");
});

test("keys", {}, async (page) => {
  await page.goto(base + UNITED);
  const first = await firsts(page);
  await turned(page, () => page.keyboard.press("n"));
  await turned(page, () => page.keyboard.press("p"));
  assert.deepEqual(await firsts(page), first);
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  assert.equal(await page.evaluate(() => document.activeElement.closest("tr").rowIndex), 2);
  await page.keyboard.press("k");
  await shoot(page, `${screenshots}/row-focus.png`);
  await swapped(page, () => page.keyboard.press("Enter"));
  assert.match(page.url(), /\/record\?key=/);
  await swapped(page, () => page.keyboard.press("u"));
  assert.deepEqual(await firsts(page), first);
  await page.keyboard.press("/");
  assert.ok(await page.isVisible("input[name='is.time_hour']"));
  await page.keyboard.type("n");
  await page.keyboard.press("Escape");
  assert.ok(!(await page.isVisible("input[name='is.time_hour']")));
  await page.keyboard.press("?");
  assert.ok(await page.isVisible("#keys"));
  await accessible(page, "the keys");
  await shoot(page, `${screenshots}/keys.png`);
  await page.keyboard.press("Escape");
  assert.ok(!(await page.isVisible("#keys")));
  await page.keyboard.press("g");
  assert.equal(await page.evaluate(() => document.activeElement.id), "jump");
});

/** Adds, edits and deletes a record, with or without scripts. */
async function change(page, name) {
  await page.goto(base + PLACES);
  await page.goto(base + "/collections/places/new");
  await page.fill("[name='value.country']", "CH");
  await page.fill("[name='value.name']", name);
  await page.fill("[name='value.population']", "12");
  await arrives(page, () => page.click("form.record button[type=submit]"));
  assert.match(await page.textContent(".notice"), /written/);
  await page.goto((await page.getAttribute("a:text('Edit')", "href")).replace(/^/, base));
  await page.fill("[name='value.population']", "lots");
  await arrives(page, () => page.click("form.record button[type=submit]"));
  assert.match(await page.textContent(".problem"), /population/i);
  await page.fill("[name='value.population']", "13");
  await page.selectOption("[name='value.capital']", "false");
  await arrives(page, () => page.click("form.record button[type=submit]"));
  const record = await page.textContent("dl.record");
  assert.ok(record.includes("13") && record.includes("false"), record);
  await page.goto((await page.getAttribute("a:text('Delete')", "href")).replace(/^/, base));
  await arrives(page, () => page.click("form button:text('Delete')"));
  assert.match(page.url(), /\/collections\/places/);
  const gone = await page.goto(`${base}/collections/places/record?key=CH&key=${name}`);
  assert.equal(gone.status(), 404);
}

test("add, edit, delete", { complaints: /404|400/ }, (page) => change(page, "Basel"));
test("add, edit, delete without scripts", { javaScriptEnabled: false, complaints: /404|400/ }, (page) => change(page, "Genf"));

test("who saves late sees what was saved before", { complaints: /409/ }, async (page, context) => {
  const edit = `${base}/collections/places/edit?key=CH&key=Bern`;
  await page.goto(edit);
  const other = await context.newPage();
  await other.goto(edit);
  await other.fill("[name='value.population']", "134000");
  await arrives(other, () => other.click("form.record button[type=submit]"));
  await page.fill("[name='value.population']", "135000");
  await arrives(page, () => page.click("form.record button[type=submit]"));
  assert.equal(await page.inputValue("[name='value.population']"), "135000", "mine");
  assert.deepEqual(await page.locator(".theirs").allInnerTexts(), ["Stored: 134000"]);
  await accessible(page, "a conflict");
  await shoot(page, `${screenshots}/conflict.png`);
});

/** Edits the same person in two windows. The page then shows the conflict of the second edit. */
async function conflict(page, context, id) {
  const edit = `${base}/collections/people/edit?key=${id}`;
  await page.goto(edit);
  const other = await context.newPage();
  await other.goto(edit);
  await other.fill("[name='value.name']", "Changed by somebody else, with a name that is rather long");
  await other.fill("[name='value.city']", "Basel");
  await arrives(other, () => other.click("form.record button[type=submit]"));
  await other.close();
  await page.fill("[name='value.name']", "Mine");
  await page.fill("[name='value.note']", "and a note");
  await arrives(page, () => page.click("form.record button[type=submit]"));
}

test("of what two changed, each value is chosen", { complaints: /409/ }, async (page, context) => {
  await conflict(page, context, 1);
  assert.equal(await page.locator("input[type=radio]:checked").count(), 3);
  assert.ok(await page.isChecked("[name='take.name'][value=mine]"), "a name was typed");
  assert.ok(await page.isChecked("[name='take.city'][value=theirs]"), "no city was typed");
  await accessible(page, "a conflict");
  await shoot(page, `${screenshots}/conflict-people.png`);
  await arrives(page, () => page.click("form.record button[type=submit]"));
  const record = await page.textContent("dl.record");
  for (const word of ["Mine", "Basel", "and a note"]) assert.ok(record.includes(word), `${word} is in ${record}`);
});

test("a conflict without scripts", { javaScriptEnabled: false, complaints: /409/ }, async (page, context) => {
  await conflict(page, context, 2);
  await page.check("[name='take.name'][value=theirs]");
  await arrives(page, () => page.click("form.record button[type=submit]"));
  assert.match(await page.textContent("dl.record"), /rather long/);
});

for (const [name, options] of [["dark", { colorScheme: "dark" }], ["375", { viewport: { width: 375, height: 720 } }]]) {
  test(`a conflict, ${name}`, { ...options, complaints: /409/ }, async (page, context) => {
    await conflict(page, context, name === "dark" ? 3 : 4);
    await accessible(page, "a conflict");
    await fits(page, "a conflict");
    await shoot(page, `${screenshots}/conflict-${name}.png`);
    await arrives(page, () => page.click("a:text('Discard my values')"));
    assert.match(await page.inputValue("[name='value.name']"), /rather long/);
  });
}

test("views and health", {}, async (page) => {
  await page.goto(base + "/");
  await swapped(page, () => page.click("a:text-is('Health')"));
  assert.match(await page.textContent("main"), /recto verify people/);
  assert.match(await page.textContent("main"), /Commit log.*Size of the log files.*Last checkpoint/s);
  const verified = await page.request.post(`${base}/v1/store:verify`, { data: {} });
  assert.equal(verified.status(), 200);
  await page.reload();
  assert.match(await page.textContent("main"), /no differences, 5 records/);
  await shoot(page, `${screenshots}/health-compared.png`);
  await swapped(page, () => page.locator("td a:text('people')").first().click());
  assert.deepEqual(await page.locator("#views h2").allInnerTexts(), ["by_city ready", "by_age ready"]);
  await shoot(page, `${screenshots}/views-compared.png`);
  await swapped(page, () => page.keyboard.press("u"));
  assert.match(page.url(), /collections[/]people$/);
});

test("the plan of a view names what was not taken, and what is looked up", {}, async (page) => {
  await page.goto(`${base}/collections/people?filter=city%20%3D%20%22Bern%22&order_by=name`);
  await page.click("#plan summary");
  const plan = await page.textContent("#plan");
  for (const word of ["by_city", "note looked up in the base table", "Rejected", "by_age"]) {
    assert.ok(plan.includes(word), `${word} is in ${plan}`);
  }
  await accessible(page, "the plan of a view");
  await shoot(page, `${screenshots}/plan-view.png`);
});

test("read without scripts", { javaScriptEnabled: false }, async (page) => {
  await page.goto(base + "/");
  await arrives(page, () => page.click("h2 a:text-is('flights')"));
  await page.fill(".pin input[name='is.carrier']", "u");
  await arrives(page, () => page.click(".pin button:text('Find')"));
  assert.deepEqual(await page.$$eval("#partitions a", (all) => all.map((one) => one.innerText)), ["UA"]);
  await page.fill(".pin input[name='is.carrier']", "UA");
  await arrives(page, () => page.click(".pin button"));
  const first = await page.locator("tbody tr").first().innerText();
  await arrives(page, () => page.click("#turn-n"));
  assert.notEqual(await page.locator("tbody tr").first().innerText(), first);
  await arrives(page, () => page.click("#turn-p"));
  assert.equal(await page.locator("tbody tr").first().innerText(), first);
  await arrives(page, () => page.click("#turn-l"));
  await arrives(page, () => page.click("#turn-f"));
  assert.equal(await page.locator("tbody tr").first().innerText(), first);
  await page.click("#open-filter");
  await page.fill("input[name='is.time_hour']", "2013-02-05");
  await arrives(page, () => page.click(".pop[open] button[type=submit]"));
  assert.equal(await page.locator(".chips .chip").count(), 2);
  await page.click("#plan summary");
  assert.ok(await page.isVisible(".plan-body"));
  await arrives(page, () => page.locator("a.row").first().click());
  assert.match(page.url(), /\/record\?/);
});

test("queues are looked at all the time, and what stands still says so", { complaints: /ERR_FAILED|status of 503|htmx:(afterRequest|sendError)/ }, async (page) => {
  const send = (body) => page.request.post(`${base}/queues/orders.fifo/send`, { form: { body, group: "late" } });
  const depth = (row) => page.locator(`tr:has(#queue-${row.replace(".", "\\.")}) td`).nth(1).textContent();
  const becomes = (text) => page.waitForFunction(
    (text) => document.getElementById("queue-orders.fifo").closest("tr").cells[1].textContent === text, text);
  await page.goto(`${base}/queues`);
  const before = Number(await depth("orders.fifo"));
  await page.focus("#queue-mails-dead");
  await send("one");
  await becomes(String(before + 1));
  assert.equal(await page.evaluate(() => document.activeElement.id), "queue-mails-dead", "the focus stays");
  await page.waitForSelector("tr:has(#queue-mails) svg polyline", { state: "attached" });
  // The page keeps its content and marks it as stale, after a request without a response and after
  // an error.
  for (const refuse of [(route) => route.abort(), (route) => route.fulfill({ status: 503, body: "<p>busy</p>" })]) {
    await page.route("**/queues", refuse);
    await page.waitForSelector("#queues.stale");
    assert.equal(await depth("orders.fifo"), String(before + 1));
    await page.unroute("**/queues", refuse);
    await page.waitForSelector("#queues:not(.stale)");
  }
  await shoot(page, `${screenshots}/queues-live.png`);

  await page.click("#queue-orders\\.fifo");
  await page.waitForURL(`${base}/queues/orders.fifo`);
  await page.waitForSelector("#figures");
  const messages = await firsts(page);
  const figure = () => page.textContent("#figures dd");
  const was = parseInt(await figure(), 10);
  await send("two");
  await page.waitForFunction((more) => parseInt(document.querySelector("#figures dd").textContent, 10) === more, was + 1);
  assert.deepEqual(await firsts(page), messages, "messages stay as they were while one reads");
});

test("the buckets of a list lead to its pages, and show which has the page", {}, async (page) => {
  await page.goto(`${base}/collections/readings?page_size=20`);
  await page.click("a.button:text-is('Buckets')");
  await page.waitForSelector("svg.buckets");
  assert.match(page.url(), /\/collections\/readings\/buckets\?/);
  const bars = page.locator("svg.buckets a");
  const count = await bars.count();
  assert.ok(count >= 7, `${count} buckets of 400 rows, of 60 at most`);
  assert.equal(await page.locator("tbody tr").count(), count, "the table beneath says the same");
  assert.deepEqual(await page.locator("tbody tr.here td:nth-child(2)").allInnerTexts(), ["the beginning this page"]);
  assert.deepEqual(await page.$$eval("svg.buckets a.here", (all) => all.map((one) => one.getAttribute("aria-label").endsWith(", this page"))), [true]);
  const rows = await page.$$eval("tbody td:nth-child(4)", (all) => all.map((one) => parseInt(one.innerText)));
  assert.equal(rows.reduce((sum, one) => sum + one, 0), 400);
  // The height of a bar is proportional to its rows, and no bar is above the line of the target.
  const heights = await page.$$eval("svg.buckets rect.bar", (all) => all.map((one) => Number(one.getAttribute("height"))));
  const line = 100 - Number(await page.getAttribute("svg.buckets line.target", "y1"));
  heights.forEach((height, index) => assert.ok(Math.abs(height - line * rows[index] / 60) < 0.1, `${height}: ${rows[index]} rows`));
  assert.ok(Math.max(...heights) <= line);
  await shoot(page, `${screenshots}/bucket-map.png`);
  // Select the third bar by keys. It leads to the page that begins there.
  const third = await page.locator("tbody tr").nth(2).locator("td").nth(1).innerText();
  await bars.first().focus();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#turn-n");
  const begins = (await firsts(page))[0];
  assert.equal(Date.parse(third.slice(0, 23)), Date.parse(begins.slice(0, 19).replace(" ", "T") + "Z"), `${third}: ${begins}`);
  // The link back shows the bucket of that page.
  await page.click("a.button:text-is('Buckets')");
  await page.waitForSelector("svg.buckets");
  assert.match((await page.locator("tbody tr.here td:nth-child(2)").allInnerTexts()).join(), new RegExp(third.slice(0, 19)));
});

const MEMBERS = "/collections/members?filter=club%20%3D%20%22chess%22&order_by=name";

for (const [how, options] of [["", {}], [" without scripts", { javaScriptEnabled: false }]]) {
  test(`what another record has is said at its field${how}`, { ...options, complaints: /409/ }, async (page) => {
    const id = how ? "21" : "20";
    await page.goto(base + "/collections/members/new");
    for (const [field, text] of Object.entries({ id, club: "go", name: "Eva", email: "3@example.org" })) {
      await page.fill(`[name='value.${field}']`, text);
    }
    await arrives(page, () => page.click("form.record button[type=submit]"));
    assert.match(await page.textContent(".problem"), /email/);
    assert.deepEqual(await page.$$eval(".field.invalid [name^='value.']", (all) => all.map((one) => one.name)), ["value.email"]);
    assert.equal(await page.getAttribute("[name='value.email']", "aria-invalid"), "true");
    assert.equal(await page.inputValue("[name='value.email']"), "3@example.org", "what was typed stays");
    assert.equal(await page.inputValue("[name='value.name']"), "Eva");
    if (!how) {
      await accessible(page, "a value that another record has");
      await shoot(page, `${screenshots}/not-unique.png`);
    }
    await page.fill("[name='value.email']", `${id}@example.org`);
    await arrives(page, () => page.click("form.record button[type=submit]"));
    assert.match(await page.textContent(".notice"), /written/);
    // The error also appears at the field if an existing record is changed.
    await page.goto(`${base}/collections/members/edit?key=${id}`);
    await page.fill("[name='value.email']", "4@example.org");
    await arrives(page, () => page.click("form.record button[type=submit]"));
    assert.equal(await page.getAttribute("[name='value.email']", "aria-invalid"), "true");
  });
}

test("text that sorts as people of a language do says of which", {}, async (page) => {
  await page.goto(base + MEMBERS);
  const sorted = ["Adam", "Ärger", "Otto", "Özil", "Zorn"];
  const names = (await firsts(page)).map((row) => row.split("|").find((cell) => sorted.includes(cell.trim())));
  assert.deepEqual(names, sorted);
  await page.click("#plan summary");
  const plan = await page.textContent("#plan");
  for (const word of ["Collation", "name as in de", "by_name"]) assert.ok(plan.includes(word), `${word} is in ${plan}`);
  await page.goto(base + "/collections/members/views");
  assert.match(await page.textContent("#views"), /Collation\s*name as in de/);
});

const EVERYWHERE = {
  home: "/",
  access: "/access",
  "nothing here": "/collections/none",
  partition: "/collections/flights",
  page: UNITED,
  refused: `/collections/flights?filter=carrier%20%3D%20%22UA%22%20AND%20flihgt%20%3D%201&was=filter%3Dcarrier%2520%253D%2520%2522UA%2522`,
  "empty page": "/collections/flights?filter=carrier%20%3D%20%22ZZ%22",
  record: "/collections/places/record?key=CH&key=Bern",
  new: "/collections/flights/new",
  edit: "/collections/places/edit?key=CH&key=Bern",
  delete: "/collections/places/delete?key=CH&key=Bern",
  views: "/collections/people/views",
  buckets: "/collections/readings/buckets",
  "no views": "/collections/places/views",
  health: "/health",
  queues: "/queues",
  queue: "/queues/mails",
  "dead letters": "/queues/mails-dead",
  "send to a queue": "/queues/orders.fifo/send",
  redrive: "/queues/mails-dead/redrive",
  purge: "/queues/mails/purge",
};

for (const colorScheme of ["light", "dark"]) {
  test(`accessible everywhere, ${colorScheme}`, { colorScheme, complaints: /404/ }, async (page) => {
    for (const [name, path] of Object.entries(EVERYWHERE)) {
      await page.goto(base + path);
      await accessible(page, name);
      await shoot(page, `${screenshots}/${name.replace(" ", "-")}-${colorScheme}.png`);
    }
    await page.goto(base + UNITED);
    await page.keyboard.press("/");
    await accessible(page, "the filter's panel");
    await page.keyboard.press("Escape");
    await page.keyboard.press("x");
    await accessible(page, "the plan");
    const [red, green, blue] = (await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor))
      .match(/\d+/g).map(Number);
    assert.equal(red + green + blue < 200, colorScheme === "dark");
  });
}

test("375 pixels", { complaints: /404/, viewport: { width: 375, height: 720 } }, async (page) => {
  for (const [name, path] of Object.entries(EVERYWHERE)) {
    await page.goto(base + path);
    await fits(page, name);
    await shoot(page, `${screenshots}/${name.replace(" ", "-")}-375.png`);
  }
  await page.goto(base + UNITED);
  for (const panel of await page.$$(".pop > summary")) {
    await panel.click();
    await fits(page, "an open panel");
    const box = await (await page.$(".pop[open] .panel")).boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= 375, JSON.stringify(box));
  }
  await page.keyboard.press("Escape");
  await page.keyboard.press("x");
  await fits(page, "the plan");
});

for (const colorScheme of ["light", "dark"]) {
  test(`the description of the API, ${colorScheme}`, { colorScheme }, async (page) => {
    await page.goto(base + "/docs");
    await accessible(page, "the description");
    await shoot(page, `${screenshots}/docs-${colorScheme}.png`);
    await page.locator("#list_flights summary").click();
    await page.locator("#list_flights").evaluate((one) => one.scrollIntoView());
    await accessible(page, "an operation");
    await shoot(page, `${screenshots}/docs-operation-${colorScheme}.png`);
  });
}

test("the description of the API, 375 pixels", { viewport: { width: 375, height: 720 } }, async (page) => {
  await page.goto(base + "/docs");
  await shoot(page, `${screenshots}/docs-375.png`);
  await page.$$eval("details", (all) => all.forEach((one) => { one.open = true; }));
  await fits(page, "the description");
  await accessible(page, "the description");
  // No name of an operation is broken: wide content scrolls instead, so each name has the height of
  // one line.
  for (const code of await page.$$("#list_flights th code")) {
    const { height } = await code.boundingBox();
    assert.ok(height < 24, `${await code.textContent()} is ${height} px high`);
  }
  await page.locator("#list_flights").evaluate((one) => one.scrollIntoView());
  await shoot(page, `${screenshots}/docs-operation-375.png`);
});

await runAll(tests, screenshots);
