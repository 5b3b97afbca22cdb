// Kinds of links and buttons of the console, and the ways in which the test reaches and clicks them: see crawl.mjs.

const UNITED = "/collections/flights?filter=carrier%20%3D%20%22UA%22";

/** Start addresses: the home page, and pages without a link to them. */
export const SEEDS = [
  "/",
  "/collections/none",
  "/collections/samples/buckets",
  "/collections/people?filter=city%20%3D%20%22Bern%22&view=by_age",
  "/collections/places?filter=country%20%3D%20%22CH%22&fields=name",
  `${UNITED}&order_by=dep_delay`,
  `${UNITED}&page_token=made-up`,
  `${UNITED}&allow_filter_scan=true`,
  `${UNITED}%20AND%20dest%20%3D%20%22LAX%22`,
  "/collections/flights?filter=dest%20%3D%20%22LAX%22&order_by=time_hour",
  `${UNITED}&from=%5B%221999-01-01T00:00:00Z%22%5D`,
];

/** Addresses whose response is an error: queries that no view serves, missing pages, and the end of a sign-in. */
export const MAY_FAIL = /[?&]was=|order_by=dep_delay|made-up|dest%20%3D%20%22LAX%22|\/none$|\/sign-out$/;

/** Fills in a form and sends it. */
async function send(page, address, values) {
  await page.goto(address);
  for (const [name, value] of Object.entries(values)) await page.fill(`[name='${name}']`, value);
  await Promise.all([page.waitForNavigation(), page.click("form[method=post] button[type=submit]")]);
}

let changes = 0;

/** Opens a page. Then saves another note of a person in another window. */
async function changeMeanwhile(page, base, path, id) {
  await page.goto(base + path);
  const other = await page.context().newPage();
  changes += 1;
  await send(other, `${base}/collections/people/edit?key=${id}`, { "value.note": `change ${changes}` });
  await other.close();
}

/** Ways to pages that have no address. */
export const ARRIVALS = [
  function invalidRecord(page, base) {
    return send(page, `${base}/collections/places/new`, { "value.country": "CH", "value.name": "Biel", "value.population": "lots" });
  },
  function invalidChange(page, base) {
    return send(page, `${base}/collections/places/edit?key=CH&key=Bern`, { "value.population": "lots" });
  },
  async function conflict(page, base) {
    await changeMeanwhile(page, base, "/collections/people/edit?key=2", 2);
    await page.fill("[name='value.note']", "mine");
    await Promise.all([page.waitForNavigation(), page.click("form.record button[type=submit]")]);
  },
  async function changedBeforeDelete(page, base) {
    await changeMeanwhile(page, base, "/collections/people/delete?key=3", 3);
    await Promise.all([page.waitForNavigation(), page.click("form button[type=submit]")]);
  },
  function invalidMessage(page, base) {
    return send(page, `${base}/queues/orders.fifo/send`, { delay_seconds: "soon" });
  },
  function invalidRedrive(page, base) {
    return send(page, `${base}/queues/mails-dead/redrive`, { max_messages: "some" });
  },
  function invalidQueries(page, base) {
    return send(page, `${base}/collections/people/design`, { queries: "none" });
  },
];

/** Steps that a kind needs before the click, and its effect, if the effect is not the page of its link. */
export const DETAILS = {
  "records: .unserved": { status: 400 },
  "records problem: .unserved": { status: 400 },
  "records partition: Look": { fill: { ".pin input:not([type=hidden])": "1" } },
  "records problem: chip of a condition": { status: 400 },
  "records problem: All, in Columns": { status: 400 },
  "records problem: Apply, in Filter": { status: 400 },
  "records problem: Apply, in As text": { status: 400 },
  "records problem: Apply, in Columns": { status: 400 },
  "new problem: Add": { fill: { "[name='value.population']": "1" } },
  "edit problem: Save": { fill: { "[name='value.population']": "1" } },
  "queue-send problem: Send": { fill: { "[name=delay_seconds]": "", "[name=group]": "crawl" } },
  "queue-send: Send": { fill: { "[name=group]": "crawl" } },
  "queue-redrive problem: Move messages": { fill: { "[name=max_messages]": "1" } },
  "design problem: Design": { fill: { "[name=queries]": "[[query]]\nfilter = 'city = ?'" } },
  "records: Jump to a value": { fill: { "#jump": "32" } },
  "records problem: Jump to a share of the rows": { fill: { "#share": "50" } },
  "records: Jump to a share of the rows": { fill: { "#share": "50" } },
  "new: Add": { fill: { "[name='value.id']": "900" } },
  "queue-redrive: Move messages": { select: { "#to": { index: 1 } } },
  "design: Design": { fill: { "[name=queries]": "[[query]]\nfilter = 'city = ?'\norder_by = \"note\"" } },
  "access: Sign out": { status: 401 },
};

/** Kinds that change data that other kinds need. They are clicked last, in this order. */
export const LAST = [
  "queue-remove: Remove",
  "queue-purge: Purge",
  "delete problem: Delete",
  "delete: Delete",
  "access: Sign out",
];

/** All kinds, by page. */
export const KINDS = {
  "access": [
    "Sign out",
  ],
  "buckets": [
    "More partitions",
    "Next buckets →",
    "bar",
    "cell of From",
    "cell of sensor",
    "← Back to the records",
    "← Previous buckets",
  ],
  "delete": [
    "Delete",
    "Keep",
  ],
  "delete problem": [
    "Delete",
    "Keep",
  ],
  "design": [
    "Design",
    "← Back to the views",
  ],
  "design problem": [
    "Design",
    "← Back to the views",
  ],
  "edit": [
    "Cancel",
    "Save",
  ],
  "edit problem": [
    "Cancel",
    "Save",
  ],
  "edit problem conflict": [
    "Cancel",
    "Discard my values",
    "Save chosen values",
  ],
  "every page": [
    ".brand",
    ".who",
    "API",
    "Close",
    "Keys",
    "Skip to content",
    "trail",
  ],
  "health": [
    "cell of Collection",
  ],
  "home": [
    ".row",
    "Health",
    "Queues",
  ],
  "new": [
    "Add",
    "Cancel",
  ],
  "new problem": [
    "Add",
    "Cancel",
  ],
  "queue": [
    "#dead-letters",
    "Purge",
    "Redrive",
    "Refresh",
    "Send a message",
    "cell of Remove",
    "value of Dead letters",
    "← Back to the queues",
  ],
  "queue-purge": [
    "Keep messages",
    "Purge",
  ],
  "queue-redrive": [
    "Cancel",
    "Move messages",
  ],
  "queue-redrive problem": [
    "Cancel",
    "Move messages",
  ],
  "queue-remove": [
    "Keep",
    "Remove",
  ],
  "queue-tables": [
    "← Back to the queues",
  ],
  "queue-send": [
    "Cancel",
    "Send",
  ],
  "queue-send problem": [
    "Cancel",
    "Send",
  ],
  "queues": [
    "#queue",
    "First",
    "Next",
    "Queue tables",
    "cell of Dead letters",
  ],
  "record": [
    "Add a similar record",
    "Delete",
    "Edit",
    "← Back to the page",
  ],
  "records": [
    "#first-row",
    "#open-filter",
    "#turn-f",
    "#turn-l",
    "#turn-n",
    "#turn-p",
    ".row",
    ".sort",
    ".unserved",
    "Add record",
    "All, in Columns",
    "Apply, in As text",
    "Apply, in Columns",
    "Apply, in Filter",
    "As text",
    "Buckets",
    "Columns",
    "Export",
    "Jump to a share of the rows",
    "Jump to a value",
    "Other fields: rows are read and checked one by one, in Filter",
    "Skip to the rows",
    "The last page",
    "Views",
    "chip Do not check rows one by one",
    "chip Let the server choose the view",
    "chip of a condition",
    "page size",
    "page size (current)",
    "plan",
  ],
  "records partition": [
    "Add record",
    "Export",
    "Look",
    "Views",
    "offered partition",
  ],
  "records problem": [
    "#first-row",
    "#open-filter",
    "#turn-l",
    "#turn-n",
    ".dismiss",
    ".row",
    ".sort",
    ".unserved",
    "Add record",
    "All collections",
    "All, in Columns",
    "Apply, in As text",
    "Apply, in Columns",
    "Apply, in Filter",
    "As text",
    "Buckets",
    "Check rows one by one",
    "Columns",
    "Export",
    "Jump to a share of the rows",
    "Jump to a value",
    "Other fields: rows are read and checked one by one, in Filter",
    "Skip to the rows",
    "The first page",
    "Use the collection's order",
    "Views",
    "chip Do not check rows one by one",
    "chip Let the server choose the view",
    "chip of a condition",
    "collection that serves it",
    "page size",
    "page size (current)",
    "plan",
  ],
  "sign-out": [
    "Sign in again",
  ],
  "views": [
    "Design",
    "← Back to the records",
  ],
};
