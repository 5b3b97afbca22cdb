// A client of Recto's queues in TypeScript, with nothing but fetch.
//
//     node build/queues.js URL send       several messages, one of which is not right, and what became of each
//     node build/queues.js URL problem    what is wrong with a request
//     node build/queues.js URL receive    messages waited for, kept for longer, done with or given back
//     node build/queues.js URL redrive    dead letters looked at, and moved back to where they came from
//     node build/queues.js URL groups     an ordered queue: each group one by one
//     node build/queues.js URL work       a worker: sends a mail for each message, until Ctrl-C or SIGTERM
//     node build/queues.js URL delete     the queues purged and deleted
//
// `npm ci && npx tsc` makes build/queues.js. URL is what `recto demo --serve` or `recto serve` printed; the queues
// are made. If the server asks for a token, it stands in RECTO_TOKEN.

import { Buffer } from "node:buffer";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

import { Problem, type ProblemBody, checked } from "./problem.js";

/** How long a receive waits if there is no message: as long as servers let it. */
const WAIT_SECONDS = 20;

/** For how long a worker that is gone keeps its message from others. One that is there extends it. */
const VISIBILITY_SECONDS = 6;

/** The longest that a message which failed waits for its next attempt. */
const MAX_DELAY_SECONDS = 900;

/** How long a worker waits for a server that is not there. */
const RETRY_SECONDS = 1;

/** What a queue is like; what is not said is the default. */
type Settings = {
  visibility_seconds?: number;
  delay_seconds?: number;
  retention_seconds?: number | null;
  dead_letters?: { queue: string; attempts: number } | null;
  ordered?: boolean;
  deduplication?: "queue" | "group";
  body_bytes?: number;
  max_in_flight?: number;
};

/** What a queue is like, and how much there is in it. */
type Status = { options: Settings; messages: number; in_flight: number; delayed: number; age_seconds: number | null };

/** Text, or any bytes in base64. */
type Body = { body: string } | { body_base64: string };

type Outgoing = Body & {
  attributes?: Record<string, string>;
  delay_seconds?: number;
  group?: string;
  deduplication_id?: string;
};

/** What became of a message that was to be sent. */
type Sent = { id: string; duplicate: boolean } | { problem: ProblemBody };

type Received = Body & {
  id: string;
  receipt: string;
  attributes: Record<string, string>;
  group?: string;
  deduplication_id?: string;
  attempts: number;
  sent_at: string;
  first_received_at: string;
};

type Peeked = Body & {
  id: string;
  position: string;
  state: "ready" | "delayed" | "in_flight" | "leaving";
  until?: string;
  attempts: number;
  sent_at: string;
  attributes: Record<string, string>;
  group?: string;
  deduplication_id?: string;
};

type Receive = { max_messages?: number; visibility_seconds?: number; wait_seconds?: number };
type Nack = { delay_seconds?: number; error?: string; counted?: boolean };
type Redrive = { to?: string; max_messages?: number };

/** One queue of a server. */
class Queue {
  readonly #queue: string;
  readonly #headers: Record<string, string>;

  constructor(
    url: string,
    readonly name: string,
    token?: string,
  ) {
    this.#queue = `${url.replace(/\/+$/, "")}/v1/queues/${name}`;
    this.#headers = token ? { Authorization: `Bearer ${token}` } : {};
  }

  /** Makes the queue, or finds that it is there and like that. */
  async create(settings: Settings = {}): Promise<void> {
    await this.#ask("PUT", "", settings);
  }

  /** What the queue is like, and how much there is in it. */
  async status(): Promise<Status> {
    return (await (await this.#ask("GET")).json()) as Status;
  }

  /** Deletes the queue with its messages. */
  async delete(): Promise<void> {
    await this.#ask("DELETE");
  }

  /** What became of each message; the others are sent if one is not right. */
  async send(messages: Outgoing[]): Promise<Sent[]> {
    return (await this.#post<{ results: Sent[] }>("send", { messages })).results;
  }

  /** The oldest messages, of which there are none if none came while it waited. */
  async receive(options: Receive = {}, stop?: AbortSignal): Promise<Received[]> {
    return (await this.#post<{ messages: Received[] }>("receive", options, stop)).messages;
  }

  /** Is done with messages. Of each receipt, whether it was so; not, if the message was received again since. */
  async ack(receipts: string[]): Promise<boolean[]> {
    return this.#settle("ack", receipts);
  }

  /** Gives messages back: after a delay, for an error, counted as an attempt or not. */
  async nack(receipts: string[], options: Nack = {}): Promise<boolean[]> {
    return this.#settle("nack", receipts, options);
  }

  /** Keeps messages for so long from now. */
  async extend(receipts: string[], visibilitySeconds: number): Promise<boolean[]> {
    return this.#settle("extend", receipts, { visibility_seconds: visibilitySeconds });
  }

  /** The oldest messages as they stand; nobody receives them by that. */
  async peek(maxMessages = 10): Promise<Peeked[]> {
    const response = await this.#ask("GET", `/messages?max_messages=${maxMessages}`);
    return ((await response.json()) as { messages: Peeked[] }).messages;
  }

  /** Moves messages to another queue: to the one whose dead letters they are, unless `to` names one. How many. */
  async redrive(options: Redrive = {}): Promise<number> {
    let moved = 0;
    for (;;) {
      // A request moves for some seconds.
      const answer = await this.#post<{ moved: number; done: boolean }>("redrive", options);
      moved += answer.moved;
      if (answer.done) return moved;
    }
  }

  /** Takes out every message that is there now. */
  async purge(): Promise<void> {
    await this.#ask("POST", "/messages:purge");
  }

  async #settle(verb: string, receipts: string[], options: object = {}): Promise<boolean[]> {
    const { results } = await this.#post<{ results: { done: boolean }[] }>(verb, { receipts, ...options });
    return results.map((result) => result.done);
  }

  async #post<Answer>(verb: string, body: object, stop?: AbortSignal): Promise<Answer> {
    const response = await this.#ask("POST", `/messages:${verb}`, body, stop);
    return (await response.json()) as Answer;
  }

  async #ask(method: string, path = "", body?: object, signal?: AbortSignal): Promise<Response> {
    const headers = { "Content-Type": "application/json", ...this.#headers };
    return checked(await fetch(this.#queue + path, { method, headers, body: body && JSON.stringify(body), signal }));
  }
}

/** What a message says. Bytes that are text come as text, however they were sent. */
function bodyOf(message: Body): Buffer {
  return "body_base64" in message ? Buffer.from(message.body_base64, "base64") : Buffer.from(message.body);
}

type Handler = (message: Received) => Promise<void>;

/**
 * Calls the handler for each message, one at a time, until told to stop; for more at a time there are more workers.
 *
 * A message may come twice, to a handler that had not ended or whose ack was lost: the handler must bear that.
 */
async function work(queue: Queue, handler: Handler, stop: AbortSignal): Promise<void> {
  const options = { wait_seconds: WAIT_SECONDS, visibility_seconds: VISIBILITY_SECONDS };
  while (!stop.aborted) {
    try {
      for (const message of await queue.receive(options, stop)) await handle(queue, message, handler);
    } catch (error) {
      if (stop.aborted) return;
      if (error instanceof Problem && error.body.status < 500) throw error;
      // The server is away, or has too much to do. What was not acknowledged comes again.
      console.error(`goes on in ${RETRY_SECONDS} s: ${error}`);
      await sleep(RETRY_SECONDS * 1000);
    }
  }
}

async function handle(queue: Queue, message: Received, handler: Handler): Promise<void> {
  const receipts = [message.receipt];
  // One that fails is followed by the next; if all do, the ack says that it was too late.
  const extend = () => queue.extend(receipts, VISIBILITY_SECONDS).catch(() => {});
  const keeping = setInterval(extend, (VISIBILITY_SECONDS * 1000) / 3);
  try {
    await handler(message);
  } catch (failure) {
    // Later each time; in the dead letters the error says why.
    const delay_seconds = Math.min(2 ** (message.attempts - 1), MAX_DELAY_SECONDS);
    const error = failure instanceof Error ? failure.message : String(failure);
    await queue.nack(receipts, { delay_seconds, error });
    return;
  } finally {
    clearInterval(keeping);
  }
  const [done] = await queue.ack(receipts);
  if (!done) console.error(`message ${message.id} was done too late: another has it`);
}

/** Stands for what is to be done; an attribute says how long that takes. */
async function sendMail(message: Received): Promise<void> {
  const address = bodyOf(message).toString();
  if (!address.includes("@")) throw new Error(`no address: ${address}`);
  await sleep(Number(message.attributes["seconds"] ?? 0) * 1000);
  console.log(`a mail to ${address}`);
}

function say(problem: Problem): void {
  console.log(`${problem.kind} in ${problem.body.field}: ${problem.message}`);
  console.log(`hint: ${problem.body.hint}`);
}

async function showSend(mails: Queue): Promise<void> {
  const results = await mails.send([
    { body: "ada@example.com", attributes: { lang: "en" } },
    { body: "grace@example.com", delay_seconds: 3600 },
    // Whoever does not know whether a message was sent sends it again, under the same id.
    { body: "alan@example.com", deduplication_id: "welcome-alan" },
    { body: "alan@example.com", deduplication_id: "welcome-alan" },
    // What is no UTF-8 goes in base64.
    { body_base64: Buffer.from("jörg@example.com", "latin1").toString("base64") },
    { body: "nobody" },
    { body: "bob@example.com", deduplication_id: "" },
  ]);
  for (const result of results) {
    if ("problem" in result) say(new Problem(result.problem));
    else console.log(result.duplicate ? "sent before" : "sent");
  }
}

async function showProblem(mails: Queue): Promise<void> {
  try {
    await mails.receive({ max_messages: 10, wait_seconds: 60 });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    say(error);
  }
}

async function showReceive(mails: Queue): Promise<void> {
  const messages = await mails.receive({ max_messages: 10, wait_seconds: WAIT_SECONDS });
  const receipts = messages.map((message) => message.receipt);
  console.log(`${count(await mails.extend(receipts, 600))} messages are kept for ten minutes`);
  const failed = messages.filter((message) => !bodyOf(message).includes("@")).map((message) => message.receipt);
  const given = await mails.nack(failed, { delay_seconds: 1, error: "no address" });
  console.log(`${count(given)} given back for a second`);
  const again = await mails.receive({ max_messages: 10, wait_seconds: WAIT_SECONDS });
  // Each receipt has its result: it is good for nothing if the message was received again since.
  const done = await mails.ack(receipts);
  for (const [index, message] of messages.entries()) {
    console.log(`${bodyOf(message)} is ${done[index] ? "done" : "not done"}`);
  }
  for (const message of again) {
    console.log(`attempt ${message.attempts} of ${bodyOf(message)}`);
    await mails.nack([message.receipt], { error: "still no address" });
  }
}

async function showRedrive(dead: Queue): Promise<void> {
  for (const letter of await dead.peek()) {
    const { "recto.attempts": attempts, "recto.error": error } = letter.attributes;
    console.log(`${bodyOf(letter)} failed ${attempts} times: ${error}`);
  }
  console.log(`${await dead.redrive()} moved back`);
}

async function showGroups(orders: Queue): Promise<void> {
  await orders.send([
    { body: "ada's first", group: "ada" },
    { body: "ada's second", group: "ada" },
    { body: "bob's first", group: "bob" },
  ]);
  for (;;) {
    const messages = await orders.receive({ max_messages: 10 });
    if (messages.length === 0) return;
    console.log(messages.map((message) => `${bodyOf(message)}`).join(", "));
    await orders.ack(messages.map((message) => message.receipt));
  }
}

async function showWork(mails: Queue): Promise<void> {
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stop.abort());
  await work(mails, sendMail, stop.signal);
}

async function showDelete(queues: Queue[]): Promise<void> {
  for (const queue of queues) {
    const before = (await queue.status()).messages;
    await queue.purge();
    console.log(`${queue.name}: ${before} messages, ${(await queue.status()).messages} after the purge`);
    await queue.delete();
  }
}

function count(results: boolean[]): number {
  return results.filter((done) => done).length;
}

const commands = ["send", "problem", "receive", "redrive", "groups", "work", "delete"];
const [url = "", command = ""] = process.argv.slice(2);
if (!commands.includes(command)) {
  console.error(`usage: queues.js URL ${commands.join("|")}`);
  process.exit(2);
}
const token = process.env["RECTO_TOKEN"];
const [mails, dead] = [new Queue(url, "mails", token), new Queue(url, "mails-dead", token)];
const orders = new Queue(url, "orders.fifo", token);
await dead.create();
await mails.create({ dead_letters: { queue: dead.name, attempts: 2 } });
await orders.create({ ordered: true });
if (command === "send") {
  await showSend(mails);
} else if (command === "problem") {
  await showProblem(mails);
} else if (command === "receive") {
  await showReceive(mails);
} else if (command === "redrive") {
  await showRedrive(dead);
} else if (command === "groups") {
  await showGroups(orders);
} else if (command === "work") {
  await showWork(mails);
} else if (command === "delete") {
  // That which has the dead letters of another goes after it.
  await showDelete([mails, dead, orders]);
}
