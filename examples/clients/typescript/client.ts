// A client of Recto's collections in TypeScript, with nothing but fetch.
//
//     node build/client.js URL pages      reads all pages forwards, then backwards, by Link headers
//     node build/client.js URL problem    shows the error of an invalid filter
//     node build/client.js URL put        stores a record and reads it
//     node build/client.js URL export     exports all records as NDJSON, and resumes after a disconnect
//
// `npm ci && npx tsc` creates build/client.js. URL is the address that `recto demo --serve` or
// `recto serve` printed. The store is the store of the demo. If the server requires a token, set
// RECTO_TOKEN.

import process from "node:process";

import { Problem, type ProblemBody, checked } from "./problem.js";

/** Maximum number of consecutive attempts to resume an export without progress. */
const MAX_RESUMES = 5;

/** Filter of the flights on the pages: flights of the last day. */
const FROM_NEWARK = 'origin = "EWR" AND time_hour >= "2013-12-31T00:00:00Z"';

type Flight = Record<string, unknown>;
type ExportLine = { record?: Flight; resume_token?: string; problem?: ProblemBody };

/** Collection of a server. */
class Collection {
  readonly #records: string;
  readonly #headers: Record<string, string>;

  constructor(url: string, name: string, token?: string) {
    this.#records = `${url.replace(/\/+$/, "")}/v1/collections/${name}/records`;
    this.#headers = token ? { Authorization: `Bearer ${token}` } : {};
  }

  /** Returns the records of each page, from the requested page to the last, or with "prev" to the first. */
  async *pages(query: Record<string, string>, relation: "next" | "prev" = "next"): AsyncGenerator<Flight[]> {
    let address: URL | undefined = new URL(`${this.#records}?${new URLSearchParams(query)}`);
    while (address) {
      const response: Response = await this.#ask(address);
      const page = (await response.json()) as { records: Flight[] };
      yield page.records;
      address = linked(response, relation);
    }
  }

  /** Returns the record with this key, if it exists. */
  async get(...key: string[]): Promise<Flight | undefined> {
    try {
      const response = await this.#ask(this.#recordAddress(key));
      return (await response.json()) as Flight;
    } catch (error) {
      if (error instanceof Problem && error.kind === "not-found") return undefined;
      throw error;
    }
  }

  /** Stores a record, and replaces an existing record with its key. A repeated request has no further effect. */
  async put(record: Flight, ...key: string[]): Promise<void> {
    const body = JSON.stringify(record);
    const headers = { "Content-Type": "application/json" };
    await this.#ask(this.#recordAddress(key), { method: "PUT", headers, body });
  }

  /** Returns every record exactly once, even if the connection is interrupted repeatedly. */
  async *export(): AsyncGenerator<Flight> {
    let token = "";
    let failures = 0;
    for (;;) {
      // Return records only after the token that follows them. If the connection is interrupted
      // before it, the server sends these records again.
      let records: Flight[] = [];
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

  /** Returns the address of a record: the percent-encoded values of its key, separated by commas. */
  #recordAddress(key: string[]): URL {
    return new URL(`${this.#records}/${key.map(encodeURIComponent).join(",")}`);
  }

  async #ask(address: URL, init: RequestInit = {}): Promise<Response> {
    return checked(await fetch(address, { ...init, headers: { ...this.#headers, ...init.headers } }));
  }
}

/** Returns the address in a Link header (RFC 8288), which is relative to the address of the page. */
function linked(response: Response, relation: string): URL | undefined {
  const links = (response.headers.get("Link") ?? "").matchAll(/<([^>]*)>; rel="([^"]*)"/g);
  for (const [, address, rel] of links) {
    if (rel === relation && address !== undefined) return new URL(address, response.url);
  }
  return undefined;
}

/** Returns the lines of a body as they arrive. */
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

async function showPages(flights: Collection): Promise<void> {
  const query = { filter: FROM_NEWARK, page_size: "100", fields: "time_hour,carrier,flight" };
  const forwards = await all(flights.pages(query));
  console.log(`forwards: ${forwards.flat().length} flights on ${forwards.length} pages`);
  const backwards = await all(flights.pages({ ...query, last: "true" }, "prev"));
  console.log(`backwards: ${backwards.flat().length} flights on ${backwards.length} pages`);
  const same = JSON.stringify(forwards.flat()) === JSON.stringify(backwards.reverse().flat());
  console.log(same ? "the same flights" : "other flights");
}

async function showProblem(flights: Collection): Promise<void> {
  try {
    await all(flights.pages({ filter: 'origin = "EWR" AND distanse > 500' }));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const { parameter, position, hint } = error.body;
    console.log(`${error.kind} in ${parameter}, character ${position}: ${error.message}`);
    console.log(`hint: ${hint}`);
  }
}

async function showPut(flights: Collection): Promise<void> {
  const key = ["2014-01-01T12:00:00Z", "UA", "7000"];
  await flights.put({ origin: "EWR", dest: "São Paulo & back", distance: 4759 }, ...key);
  console.log(JSON.stringify(await flights.get(...key)));
  console.log(await flights.get("2014-01-01T12:00:00Z", "UA", "7001"));
}

const [url = "", command = ""] = process.argv.slice(2);
const flights = new Collection(url, "flights", process.env["RECTO_TOKEN"]);
if (command === "pages") {
  await showPages(flights);
} else if (command === "problem") {
  await showProblem(flights);
} else if (command === "put") {
  await showPut(flights);
} else if (command === "export") {
  for await (const flight of flights.export()) console.log(JSON.stringify(flight));
} else {
  console.error("usage: client.js URL pages|problem|put|export");
  process.exitCode = 2;
}
