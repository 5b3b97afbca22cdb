// A client of Recto in TypeScript, with nothing but fetch.
//
//     node build/client.js URL pages      every page forwards, then every page backwards, by Link headers
//     node build/client.js URL problem    what is wrong with a filter
//     node build/client.js URL put        a record, put and read again
//     node build/client.js URL export     all records as NDJSON, resumed if the connection is cut
//
// `npm ci && npx tsc` makes build/client.js. URL is what `recto serve` printed. If the server asks for a
// token, it stands in RECTO_TOKEN.

import process from "node:process";

/** How often in a row an export is asked to go on without having come further. */
const MAX_RESUMES = 5;

type Order = Record<string, unknown>;
type ProblemBody = { type: string; detail: string; parameter?: string; position?: number; hint?: string };
type ExportLine = { record?: Order; resume_token?: string; problem?: ProblemBody };

/** What the server says is wrong (RFC 9457). */
class Problem extends Error {
  readonly kind: string;

  constructor(readonly body: ProblemBody) {
    super(body.detail);
    this.kind = body.type.replace("urn:recto:problem:", "");
  }
}

/** One collection of a server. */
class Collection {
  readonly #records: string;
  readonly #headers: Record<string, string>;

  constructor(url: string, name: string, token?: string) {
    this.#records = `${url}/v1/collections/${name}/records`;
    this.#headers = token ? { Authorization: `Bearer ${token}` } : {};
  }

  /** The records of each page, from the one asked for on: to the end, or with "prev" to the beginning. */
  async *pages(query: Record<string, string>, relation: "next" | "prev" = "next"): AsyncGenerator<Order[]> {
    let address: URL | undefined = new URL(`${this.#records}?${new URLSearchParams(query)}`);
    while (address) {
      const response: Response = await this.#ask(address);
      const page = (await response.json()) as { records: Order[] };
      yield page.records;
      address = linked(response, relation);
    }
  }

  /** The record with this key, if there is one. */
  async get(...key: string[]): Promise<Order | undefined> {
    try {
      const response = await this.#ask(this.#recordAddress(key));
      return (await response.json()) as Order;
    } catch (error) {
      if (error instanceof Problem && error.kind === "not-found") return undefined;
      throw error;
    }
  }

  /** Stores a record, in the place of one with its key. Sent twice, it does the same as once. */
  async put(record: Order, ...key: string[]): Promise<void> {
    const body = JSON.stringify(record);
    const headers = { "Content-Type": "application/json" };
    await this.#ask(this.#recordAddress(key), { method: "PUT", headers, body });
  }

  /** Every record once, however often the connection is cut. */
  async *export(): AsyncGenerator<Order> {
    let token = "";
    let failures = 0;
    for (;;) {
      // Records are handed on when the token after them has come: what a cut takes comes again.
      let records: Order[] = [];
      try {
        const query = new URLSearchParams({ resume_tokens: "true", resume_token: token });
        const response = await this.#ask(new URL(`${this.#records}:export?${query}`));
        for await (const line of lines(response)) {
          const message = JSON.parse(line) as ExportLine;
          if (message.record) {
            records.push(message.record);
          } else if (message.resume_token !== undefined) {
            yield* records;
            [records, failures, token] = [[], 0, message.resume_token];
            if (token === "") return;
          } else if (message.problem) {
            throw new Problem(message.problem);
          }
        }
        throw new Error("the export ended before its end");
      } catch (error) {
        failures += 1;
        if (error instanceof Problem || failures > MAX_RESUMES) throw error;
        await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** failures));
      }
    }
  }

  /** The key's values in order, each percent-encoded by itself, joined by commas. */
  #recordAddress(key: string[]): URL {
    return new URL(`${this.#records}/${key.map(encodeURIComponent).join(",")}`);
  }

  async #ask(address: URL, init: RequestInit = {}): Promise<Response> {
    const response = await fetch(address, { ...init, headers: { ...this.#headers, ...init.headers } });
    if (response.headers.get("Content-Type") === "application/problem+json") {
      throw new Problem((await response.json()) as ProblemBody);
    }
    if (!response.ok) throw new Error(`${address} answered ${response.status}`);
    return response;
  }
}

/** Where a Link header leads (RFC 8288), relative to the page's own address. */
function linked(response: Response, relation: string): URL | undefined {
  const links = (response.headers.get("Link") ?? "").matchAll(/<([^>]*)>; rel="([^"]*)"/g);
  for (const [, address, rel] of links) {
    if (rel === relation && address !== undefined) return new URL(address, response.url);
  }
  return undefined;
}

/** The whole lines of a body, as they come. */
async function* lines(response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const piece of response.body ?? []) {
    const found = (rest + decoder.decode(piece as Uint8Array, { stream: true })).split("\n");
    rest = found.pop() ?? "";
    yield* found;
  }
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

async function showPages(orders: Collection): Promise<void> {
  const query = { filter: 'status = "open"', page_size: "100", fields: "id" };
  const ids = (pages: Order[][]) => pages.map((page) => page.map((order) => order["id"]));
  const forwards = ids(await all(orders.pages(query)));
  console.log(`forwards: ${forwards.flat().length} orders on ${forwards.length} pages`);
  const backwards = ids(await all(orders.pages({ ...query, last: "true" }, "prev")));
  console.log(`backwards: ${backwards.flat().length} orders on ${backwards.length} pages`);
  const same = String(forwards.flat()) === String(backwards.reverse().flat());
  console.log(same ? "the same orders" : "other orders");
}

async function showProblem(orders: Collection): Promise<void> {
  try {
    await all(orders.pages({ filter: 'status = "open" AND totl > 5' }));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const { parameter, position, hint } = error.body;
    console.log(`${error.kind} in ${parameter}, character ${position}: ${error.message}`);
    console.log(`hint: ${hint}`);
  }
}

async function showPut(orders: Collection): Promise<void> {
  const key = ["open", "2026-11-21T12:00:00Z", "7000"];
  await orders.put({ customer: "Ada, Byron & Co", total: 0.1 }, ...key);
  console.log(JSON.stringify(await orders.get(...key)));
  console.log(await orders.get("open", "2026-11-21T12:00:00Z", "7001"));
}

const [url = "", command = ""] = process.argv.slice(2);
const orders = new Collection(url, "orders", process.env["RECTO_TOKEN"]);
if (command === "pages") {
  await showPages(orders);
} else if (command === "problem") {
  await showProblem(orders);
} else if (command === "put") {
  await showPut(orders);
} else if (command === "export") {
  for await (const order of orders.export()) console.log(JSON.stringify(order));
} else {
  console.error("client.js URL pages|problem|put|export");
  process.exitCode = 2;
}
