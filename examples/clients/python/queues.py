"""A client of Recto's queues in Python, with nothing but httpx.

    python queues.py URL send       several messages, one of which is not right, and what became of each
    python queues.py URL problem    what is wrong with a request
    python queues.py URL receive    messages waited for, kept for longer, done with or given back
    python queues.py URL redrive    dead letters looked at, and moved back to where they came from
    python queues.py URL groups     an ordered queue: each group one by one
    python queues.py URL work       a worker: sends a mail for each message, until Ctrl-C or SIGTERM
    python queues.py URL delete     the queues purged and deleted

URL is what `recto demo --serve` or `recto serve` printed; the queues are made. If the server asks for a token,
it stands in RECTO_TOKEN.
"""

import os
import signal
import sys
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import httpx

from problem import Problem, checked

WAIT_SECONDS = 20
"""How long a receive waits if there is no message: as long as servers let it."""

VISIBILITY_SECONDS = 6
"""For how long a worker that is gone keeps its message from others. One that is there extends it."""

MAX_DELAY_SECONDS = 900
"""The longest that a message which failed waits for its next attempt."""

RETRY_SECONDS = 1
"""How long a worker waits for a server that is not there."""


class Queue:
    """One queue of a server."""

    def __init__(self, url: str, name: str, token: str | None = None):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.Client(headers=headers, timeout=60)
        self._queue = f"{url.rstrip('/')}/v1/queues/{name}"
        self.name = name

    def create(self, **settings) -> None:
        """Makes the queue, or finds that it is there and like that."""
        checked(self._client.put(self._queue, json=settings))

    def status(self) -> dict:
        """What the queue is like, and how much there is in it."""
        return checked(self._client.get(self._queue)).json()

    def delete(self) -> None:
        """Deletes the queue with its messages."""
        checked(self._client.delete(self._queue))

    def send(self, messages: list[dict]) -> list[dict]:
        """What became of each message: its id, and whether it is a duplicate; or the problem with it, unsent."""
        return self._post("send", messages=messages).json()["results"]

    def receive(self, **options) -> list[dict]:
        """The oldest messages: max_messages (1), for visibility_seconds, waiting for wait_seconds if there is none."""
        return self._post("receive", **options).json()["messages"]

    def ack(self, receipts: list[str]) -> list[bool]:
        """Is done with messages. Of each receipt, whether it was so; not, if the message was received again since."""
        return self._settle("ack", receipts)

    def nack(self, receipts: list[str], **options) -> list[bool]:
        """Gives messages back: after delay_seconds (0), for an error, counted (True) as an attempt or not."""
        return self._settle("nack", receipts, **options)

    def extend(self, receipts: list[str], visibility_seconds: int) -> list[bool]:
        """Keeps messages for so long from now. Of each receipt, whether that was done; not, if the message was removed."""
        return self._settle("extend", receipts, visibility_seconds=visibility_seconds)

    def peek(self, max_messages: int = 10) -> list[dict]:
        """Messages as they stand, about the oldest first; nobody receives them by that."""
        query = {"max_messages": max_messages}
        return checked(self._client.get(f"{self._queue}/messages", params=query)).json()["messages"]

    def redrive(self, **options) -> int:
        """Moves all to another queue: to the one whose dead letters they are, unless `to` names one. How many."""
        moved, done = 0, False
        while not done:
            # Each request moves messages for a few seconds at most.
            answer = self._post("redrive", **options).json()
            moved, done = moved + answer["moved"], answer["done"]
        return moved

    def purge(self) -> None:
        """Takes out every message that is there now."""
        self._post("purge")

    def _settle(self, verb: str, receipts: list[str], **options) -> list[bool]:
        results = self._post(verb, receipts=receipts, **options).json()["results"]
        return [result["done"] for result in results]

    def _post(self, verb: str, **body) -> httpx.Response:
        return checked(self._client.post(f"{self._queue}/messages:{verb}", json=body))


def body_of(message: dict) -> bytes:
    """What a message says. Bytes that are text come as text, however they were sent."""
    if "body_base64" in message:
        return b64decode(message["body_base64"])
    return message["body"].encode()


def work(queue: Queue, handler: Callable[[dict], None]) -> None:
    """Calls the handler for each message, one at a time; for more at a time there are more workers.

    A message may come twice, to a handler that had not ended or whose ack was lost: the handler must bear that.
    """
    while True:
        try:
            for message in queue.receive(wait_seconds=WAIT_SECONDS, visibility_seconds=VISIBILITY_SECONDS):
                handle(queue, message, handler)
        except (Problem, httpx.HTTPError) as error:
            if isinstance(error, Problem) and error.status < 500:
                raise
            # The server is unreachable or busy. Unacknowledged messages are delivered again.
            print(f"goes on in {RETRY_SECONDS} s: {error}", file=sys.stderr)
            time.sleep(RETRY_SECONDS)


def handle(queue: Queue, message: dict, handler: Callable[[dict], None]) -> None:
    receipts = [message["receipt"]]
    try:
        with kept(queue, receipts):
            handler(message)
    except Exception as error:
        # The delay grows with each attempt. A dead letter contains the error.
        delay_seconds = min(2 ** (message["attempts"] - 1), MAX_DELAY_SECONDS)
        queue.nack(receipts, delay_seconds=delay_seconds, error=str(error))
    except BaseException:
        # The worker stops. Other workers get the message at once, and the attempt does not count.
        queue.nack(receipts, counted=False)
        raise
    else:
        [done] = queue.ack(receipts)
        if not done:
            print(f"message {message['id']} was done too late: another has it", file=sys.stderr)


@contextmanager
def kept(queue: Queue, receipts: list[str]) -> Iterator[None]:
    """Keeps messages for as long as the block runs."""
    ended = threading.Event()

    def extend() -> None:
        while not ended.wait(VISIBILITY_SECONDS / 3):
            # Ignore a failed extension, because the next one may succeed. If all fail, the ack reports it.
            with suppress(Problem, httpx.HTTPError):
                queue.extend(receipts, VISIBILITY_SECONDS)

    threading.Thread(target=extend, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def send_mail(message: dict) -> None:
    """Stands for what is to be done; an attribute says how long that takes."""
    address = body_of(message).decode()
    if "@" not in address:
        raise ValueError(f"no address: {address}")
    time.sleep(float(message["attributes"].get("seconds", "0")))
    print(f"a mail to {address}", flush=True)


def say(problem: Problem) -> None:
    print(f"{problem.kind} in {problem.field}: {problem}")
    print(f"hint: {problem.hint}")


def show_send(mails: Queue) -> None:
    results = mails.send(
        [
            {"body": "ada@example.com", "attributes": {"lang": "en"}},
            {"body": "grace@example.com", "delay_seconds": 3600},
            # If the outcome of a send is unknown, send the message again with the same id.
            {"body": "alan@example.com", "deduplication_id": "welcome-alan"},
            {"body": "alan@example.com", "deduplication_id": "welcome-alan"},
            # Send bytes that are not UTF-8 in base64.
            {"body_base64": b64encode("jörg@example.com".encode("latin-1")).decode()},
            {"body": "nobody"},
            {"body": "bob@example.com", "deduplication_id": ""},
        ]
    )
    for result in results:
        if "problem" in result:
            say(Problem(result["problem"]))
        else:
            print("sent before" if result["duplicate"] else "sent")


def show_problem(mails: Queue) -> None:
    try:
        mails.receive(max_messages=10, wait_seconds=60)
    except Problem as problem:
        say(problem)


def show_receive(mails: Queue) -> None:
    messages = mails.receive(max_messages=10, wait_seconds=WAIT_SECONDS)
    receipts = [message["receipt"] for message in messages]
    print(f"{sum(mails.extend(receipts, 600))} messages are kept for ten minutes")
    failed = [message["receipt"] for message in messages if b"@" not in body_of(message)]
    print(f"{sum(mails.nack(failed, delay_seconds=1, error='no address'))} given back for a second")
    again = mails.receive(max_messages=10, wait_seconds=WAIT_SECONDS)
    # Each receipt has its own result. It is false if the message was received again since.
    for message, done in zip(messages, mails.ack(receipts)):
        print(f"{body_of(message).decode(errors='replace')} is {'done' if done else 'not done'}")
    for message in again:
        print(f"attempt {message['attempts']} of {body_of(message).decode()}")
        mails.nack([message["receipt"]], error="still no address")


def show_redrive(dead: Queue) -> None:
    for letter in dead.peek():
        attempts, error = (letter["attributes"][f"recto.{name}"] for name in ("attempts", "error"))
        print(f"{body_of(letter).decode()} failed {attempts} times: {error}")
    print(f"{dead.redrive()} moved back")


def show_groups(orders: Queue) -> None:
    orders.send(
        [
            {"body": "ada's first", "group": "ada"},
            {"body": "ada's second", "group": "ada"},
            {"body": "bob's first", "group": "bob"},
        ]
    )
    while messages := orders.receive(max_messages=10):
        print(", ".join(message["body"] for message in messages))
        orders.ack([message["receipt"] for message in messages])


def show_work(mails: Queue) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit())
    work(mails, send_mail)


def show_delete(queues: list[Queue]) -> None:
    for queue in queues:
        before = queue.status()["messages"]
        queue.purge()
        print(f"{queue.name}: {before} messages, {queue.status()['messages']} after the purge")
        queue.delete()


def main() -> None:
    commands = ("send", "problem", "receive", "redrive", "groups", "work", "delete")
    if len(sys.argv) != 3 or sys.argv[2] not in commands:
        sys.exit(f"usage: queues.py URL {'|'.join(commands)}")
    url, command = sys.argv[1:]
    token = os.environ.get("RECTO_TOKEN")
    mails, dead, orders = (Queue(url, name, token) for name in ("mails", "mails-dead", "orders.fifo"))
    dead.create()
    mails.create(dead_letters={"queue": dead.name, "attempts": 2})
    orders.create(ordered=True)
    if command == "send":
        show_send(mails)
    elif command == "problem":
        show_problem(mails)
    elif command == "receive":
        show_receive(mails)
    elif command == "redrive":
        show_redrive(dead)
    elif command == "groups":
        show_groups(orders)
    elif command == "work":
        show_work(mails)
    elif command == "delete":
        # Delete a queue before its dead-letter queue.
        show_delete([mails, dead, orders])


if __name__ == "__main__":
    main()
