// Signs in to the console of a server with tokens: node signin.mjs URL FOLDER-FOR-SCREENSHOTS
// Environment variables contain the tokens: TOKEN_ALL, TOKEN_UNITED (reads flights of one carrier) and
// TOKEN_PLACES (reads places).

import assert from "node:assert/strict";
import { accessible, runAll, shoot } from "./chromium.mjs";

const [base, screenshots] = process.argv.slice(2);
const { TOKEN_ALL, TOKEN_UNITED, TOKEN_PLACES } = process.env;
const FLIGHTS = "/collections/flights?filter=carrier%20%3D%20";
const PLACES = "/collections/places?filter=country%20%3D%20%22CH%22";

const tests = [];
const test = (name, options, run) => tests.push({ name, options, run });
/** Returns the credentials of a person: any name, and the token as the password. */
const as = (password) => ({ httpCredentials: { username: "ada", password } });
const rows = (page) => page.locator("tbody tr").count();
const arrives = (page, act) => Promise.all([page.waitForNavigation(), act()]);

test("without a token a person is asked for one", {}, async (page, context) => {
  for (const path of ["/", PLACES, "/docs", "/assets/console.css"]) {
    const answer = await context.request.get(base + path);
    assert.equal(answer.status(), 401);
    const challenges = answer.headersArray().filter(({ name }) => name.toLowerCase() === "www-authenticate");
    assert.ok(challenges.some(({ value }) => value.startsWith("Basic realm=")), JSON.stringify(challenges));
  }
});

// Playwright cancels the sign-in after the server rejects the token, so the browser shows the page
// of the 401 response.
test("who cancels the sign-in sees a page", { ...as("recto_0000000000000000_made_up"), complaints: /401/ }, async (page) => {
  const answer = await page.goto(base + PLACES);
  assert.equal(answer.status(), 401);
  assert.equal(await page.title(), "Sign in · Recto");
  assert.ok(!(await page.content()).includes("Bern"));
  await accessible(page, "the sign-in page");
  await shoot(page, `${screenshots}/sign-in.png`);
  const [again] = await Promise.all([page.waitForResponse(`${base}/`), page.click("a:text-is('Sign in')")]);
  assert.equal(again.status(), 401);
});

for (const [what, password] of Object.entries({ "a made-up": "recto_0000000000000000_made_up", "an altered": `${TOKEN_ALL}0`, "no": "" })) {
  test(`${what} token is refused`, { ...as(password), complaints: /401/ }, async (page) => {
    const answer = await page.goto(base + PLACES);
    assert.equal(answer.status(), 401);
    assert.ok(!(await page.content()).includes("Bern"));
  });
}

test("with a token the console is as without tokens", as(TOKEN_ALL), async (page) => {
  await page.goto(base + "/");
  await page.click("h2 a:text-is('flights')");
  await page.fill(".pin input[name='is.carrier']", "AA");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#turn-n");
  const first = await page.locator("tbody tr").first().innerText();
  await page.click("#turn-n");
  await page.waitForFunction((before) => document.querySelector("tbody tr").innerText !== before, first);
  await page.click("#turn-p");
  await page.waitForFunction((before) => document.querySelector("tbody tr").innerText === before, first);
  // The form is on a page of this server, so the server accepts the origin of its request.
  await page.goto(base + "/collections/places/new");
  await page.fill("[name='value.country']", "CH");
  await page.fill("[name='value.name']", "Chur");
  await arrives(page, () => page.click("form.record button[type=submit]"));
  assert.match(await page.textContent(".notice"), /written/);
  await page.goto((await page.getAttribute("a:text('Delete')", "href")).replace(/^/, base));
  await arrives(page, () => page.click("form button:text('Delete')"));
  await page.goto(base + PLACES);
  assert.equal(await rows(page), 3);
});

test("a page of another site changes nothing", { ...as(TOKEN_ALL), complaints: /403|ERR_BLOCKED|Content Security/ }, async (page) => {
  // `localhost` names the same machine, but is another site for the browser.
  const other = base.replace("127.0.0.1", "localhost");
  await page.route(`${other}/evil`, (route) => route.fulfill({
    contentType: "text/html",
    body: `<form method="post" action="${base}/collections/places/delete?key=CH&key=Bern"><button>Win</button></form>`,
  }));
  await page.goto(`${other}/evil`);
  const [answer] = await Promise.all([page.waitForResponse(/delete/), page.click("button")]);
  assert.equal(answer.status(), 403);
  await page.goto(base + PLACES);
  assert.equal(await rows(page), 3);
});

test("who sees some rows sees no others", { ...as(TOKEN_UNITED), complaints: /40[34]/ }, async (page) => {
  await page.goto(base + "/");
  const home = await page.textContent("main");
  assert.ok(home.includes("flights") && !home.includes("places"), home);
  await page.click("a.who");
  await page.waitForSelector("h1:text('Signed in as tester')");
  assert.ok((await page.textContent("main")).includes('carrier = "UA"'));
  await accessible(page, "who is signed in");
  await shoot(page, `${screenshots}/signed-in-access.png`);
  await page.goto(`${base}${FLIGHTS}%22UA%22`);
  assert.equal(await rows(page), 50);
  await shoot(page, `${screenshots}/signed-in-united.png`);
  for (const filter of ["%22AA%22", "%22AA%22&allow_filter_scan=true", "%22AA%22&order_by=time_hour"]) {
    await page.goto(base + FLIGHTS + filter);
    assert.equal(await rows(page), 0, filter);
  }
  await page.goto(`${base}/collections/flights?filter=carrier%20%3D%20%22AA%22%20OR%20carrier%20%3D%20%22UA%22`);
  const carriers = await page.$$eval("tbody tr", (all) => [...new Set(all.map((one) => one.innerText.includes("AA")))]);
  assert.deepEqual(carriers, [false]);
  const record = await page.goto(`${base}/collections/flights/record?key=2013-01-01T00:00:00Z&key=AA&key=0`);
  assert.equal(record.status(), 404);
  const hidden = await page.goto(base + PLACES);
  assert.equal(hidden.status(), 404);
  assert.ok(!(await page.content()).includes("Bern"));
});

test("who may only read is offered nothing else", { ...as(TOKEN_PLACES), complaints: /403/ }, async (page) => {
  for (const path of [PLACES, "/collections/places/record?key=CH&key=Bern"]) {
    await page.goto(base + path);
    assert.ok((await page.textContent("main")).includes("Bern"));
    const offered = await page.$$eval("main a, main button", (all) => all.map((one) => one.innerText.trim()));
    for (const word of ["Add", "Edit", "Delete", "Export"]) {
      assert.ok(!offered.some((one) => one.startsWith(word)), `${word} is offered: ${offered}`);
    }
  }
  await shoot(page, `${screenshots}/signed-in-reader.png`);
  for (const action of ["new", "edit", "delete"]) {
    const answer = await page.goto(`${base}/collections/places/${action}?key=CH&key=Bern`);
    assert.equal(answer.status(), 403);
    assert.match(await page.textContent(".problem"), /lacks the right/);
    await accessible(page, "a refusal");
  }
  await shoot(page, `${screenshots}/signed-in-refused.png`);
});

await runAll(tests, screenshots);
