// A client of Recto's queues in TypeScript, with nothing but fetch.
//
//     node build/queues.js URL send       sends several messages, one of them invalid, and shows their results
//     node build/queues.js URL problem    shows the error of an invalid request
//     node build/queues.js URL receive    waits for messages, and extends, acknowledges or gives them back
//     node build/queues.js URL redrive    shows dead letters, and moves them back to their queue
//     node build/queues.js URL groups     receives from an ordered queue, one message per group at a time
//     node build/queues.js URL work       sends a mail for each message, until Ctrl-C or SIGTERM
//     node build/queues.js URL delete     purges and deletes the queues
//
// `npm ci && npx tsc` creates build/queues.js. URL is the address that `recto demo --serve` or
// `recto serve` printed. The program creates the queues. If the server requires a token, set
// RECTO_TOKEN.

import { Buffer } from "node:buffer";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

import { Problem, type ProblemBody, checked } from "./problem.js";

/** Maximum time for which a receive waits for a message. Servers allow no longer time. */
const WAIT_SECONDS = 20;

/** Time after which other workers get the message of a dead worker. A live worker extends it. */
const VISIBILITY_SECONDS = 6;

/** Maximum delay of a failed message before its next attempt. */
const MAX_DELAY_SECONDS = 900;

/** Time for which a worker waits before it tries an unreachable server again. */
const RETRY_SECONDS = 1;

/** Options of a queue. Omitted options have their defaults. */
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

/** Options of a queue, and its numbers of messages. */
type Status = { options: Settings; messages: number; in_flight: number; delayed: number; age_seconds: number | null };

/** Body as text, or as bytes in base64. */
type Body = { body: string } | { body_base64: string };

type Outgoing = Body & {
  attributes?: Record<string, string>;
  delay_seconds?: number;
  group?: string;
  deduplication_id?: string;
};

/** Result of sending a message. */
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

/** Queue of a server. */
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

  /** Creates the queue. Succeeds if it exists with the same options. */
  async create(settings: Settings = {}): Promise<void> {
    await this.#ask("PUT", "", settings);
  }

  /** Returns the options of the queue and its numbers of messages. */
  async status(): Promise<Status> {
    return (await (await this.#ask("GET")).json()) as Status;
  }

  /** Deletes the queue with its messages. */
  async delete(): Promise<void> {
    await this.#ask("DELETE");
  }

  /** Sends messages and returns the result of each. If one is invalid, the others are sent. */
  async send(messages: Outgoing[]): Promise<Sent[]> {
    return (await this.#post<{ results: Sent[] }>("send", { messages })).results;
  }

  /** Receives the oldest messages. Returns none if no message arrived within the waiting time. */
  async receive(options: Receive = {}, stop?: AbortSignal): Promise<Received[]> {
    return (await this.#post<{ messages: Received[] }>("receive", options, stop)).messages;
  }

  /** Acknowledges messages. The result of a receipt is false if the message was received again since. */
  async ack(receipts: string[]): Promise<boolean[]> {
    return this.#settle("ack", receipts);
  }

  /** Gives messages back, with an optional delay and error. They can count as attempts or not. */
  async nack(receipts: string[], options: Nack = {}): Promise<boolean[]> {
    return this.#settle("nack", receipts, options);
  }

  /** Extends the leases of messages to this time from now. */
  async extend(receipts: string[], visibilitySeconds: number): Promise<boolean[]> {
    return this.#settle("extend", receipts, { visibility_seconds: visibilitySeconds });
  }

  /** Returns the oldest messages without receiving them. */
  async peek(maxMessages = 10): Promise<Peeked[]> {
    const response = await this.#ask("GET", `/messages?max_messages=${maxMessages}`);
    return ((await response.json()) as { messages: Peeked[] }).messages;
  }

  /** Moves messages to the queue `to`, or back to the queue whose dead letters they are. Returns their number. */
  async redrive(options: Redrive = {}): Promise<number> {
    let moved = 0;
    for (;;) {
      // Each request moves messages for a few seconds at most.
      const answer = await this.#post<{ moved: number; done: boolean }>("redrive", options);
      moved += answer.moved;
      if (answer.done) return moved;
    }
  }

  /** Deletes all current messages. */
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

/** Returns the body of a message. The server returns UTF-8 bodies as text, even if they were sent in base64. */
function bodyOf(message: Body): Buffer {
  return "body_base64" in message ? Buffer.from(message.body_base64, "base64") : Buffer.from(message.body);
}

type Handler = (message: Received) => Promise<void>;

/**
 * Calls the handler for each message, one at a time, until `stop` is signaled. Run several workers for concurrency.
 *
 * A message can be delivered again, if its handler did not end or if its ack was lost. So the handler must be
 * idempotent.
 */
async function work(queue: Queue, handler: Handler, stop: AbortSignal): Promise<void> {
  const options = { wait_seconds: WAIT_SECONDS, visibility_seconds: VISIBILITY_SECONDS };
  while (!stop.aborted) {
    try {
      for (const message of await queue.receive(options, stop)) await handle(queue, message, handler);
    } catch (error) {
      if (stop.aborted) return;
      if (error instanceof Problem && error.body.status < 500) throw error;
      // The server is unreachable or busy. Unacknowledged messages are delivered again.
      console.error(`goes on in ${RETRY_SECONDS} s: ${error}`);
      await sleep(RETRY_SECONDS * 1000);
    }
  }
}

async function handle(queue: Queue, message: Received, handler: Handler): Promise<void> {
  const receipts = [message.receipt];
  // Ignore a failed extension, because the next one may succeed. If all fail, the ack reports it.
  const extend = () => queue.extend(receipts, VISIBILITY_SECONDS).catch(() => {});
  const keeping = setInterval(extend, (VISIBILITY_SECONDS * 1000) / 3);
  try {
    await handler(message);
  } catch (failure) {
    // The delay grows with each attempt. A dead letter contains the error.
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

/** Stands for real work. An attribute sets its duration. */
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
    // If the outcome of a send is unknown, send the message again with the same id.
    { body: "alan@example.com", deduplication_id: "welcome-alan" },
    { body: "alan@example.com", deduplication_id: "welcome-alan" },
    // Send bytes that are not UTF-8 in base64.
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
  // Each receipt has its own result. It is false if the message was received again since.
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
  // Delete a queue before its dead-letter queue.
  await showDelete([mails, dead, orders]);
}
