"""A client of Recto's collections in Python, with nothing but httpx.

    python client.py URL pages      every page forwards, then every page backwards, by Link headers
    python client.py URL problem    what is wrong with a filter
    python client.py URL put        a record, put and read again
    python client.py URL export     all records as NDJSON, resumed if the connection is cut

URL is what `recto demo --serve` or `recto serve` printed; the store is the demo's. If the server asks for a
token, it stands in RECTO_TOKEN.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from urllib.parse import quote

import httpx

from problem import Problem, checked

MAX_RESUMES = 5
"""How often in a row an export is asked to go on without having come further."""

FROM_NEWARK = 'origin = "EWR" AND time_hour >= "2013-12-31T00:00:00Z"'
"""The flights that are paged through: those of the last day."""


class Collection:
    """One collection of a server."""

    def __init__(self, url: str, name: str, token: str | None = None):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.Client(headers=headers, timeout=60)
        self._records = f"{url.rstrip('/')}/v1/collections/{name}/records"

    def pages(self, relation: str = "next", **query) -> Iterator[list[dict]]:
        """The records of each page, from the one asked for on: to the end, or with "prev" to the beginning."""
        response = checked(self._client.get(self._records, params=query))
        while True:
            yield response.json()["records"]
            link = response.links.get(relation)
            if link is None:
                return
            # The address in the header is relative to the address of the page. Its token is opaque.
            response = checked(self._client.get(response.url.join(link["url"])))

    def get(self, *key: str) -> dict | None:
        """The record with this key, if there is one."""
        response = self._client.get(self._record(key))
        return None if response.status_code == 404 else checked(response).json()

    def put(self, *key: str, record: dict) -> None:
        """Stores a record, in the place of one with its key. Sent twice, it does the same as once."""
        checked(self._client.put(self._record(key), json=record))

    def export(self) -> Iterator[dict]:
        """Every record once, however often the connection is cut."""
        token, failures = "", 0
        while True:
            # Return records only after the token that follows them. If the connection is interrupted
            # before it, the server sends these records again.
            records = []
            try:
                query = {"resume_tokens": "true", "resume_token": token}
                with self._client.stream("GET", f"{self._records}:export", params=query) as response:
                    if response.is_error:
                        response.read()
                    for line in checked(response).iter_lines():
                        message = json.loads(line)
                        if "record" in message:
                            records.append(message["record"])
                        elif "resume_token" in message:
                            yield from records
                            records, failures, token = [], 0, message["resume_token"]
                            if token == "":
                                return
                        else:
                            raise Problem(message["problem"])
                raise httpx.RemoteProtocolError("the export ended before its end")
            except httpx.TransportError:
                failures += 1
                if failures > MAX_RESUMES:
                    raise
                time.sleep(0.1 * 2**failures)

    def _record(self, key: tuple[str, ...]) -> str:
        """The record's address: the key's values in order, each percent-encoded by itself, joined by commas."""
        return f"{self._records}/" + ",".join(quote(part, safe="") for part in key)


def show_pages(flights: Collection) -> None:
    query = {"filter": FROM_NEWARK, "page_size": 100, "fields": "time_hour,carrier,flight"}
    forwards = list(flights.pages(**query))
    print(f"forwards: {sum(map(len, forwards))} flights on {len(forwards)} pages")
    backwards = list(flights.pages("prev", last="true", **query))
    print(f"backwards: {sum(map(len, backwards))} flights on {len(backwards)} pages")
    same = sum(forwards, []) == sum(reversed(backwards), [])
    print("the same flights" if same else "other flights")


def show_problem(flights: Collection) -> None:
    try:
        next(flights.pages(filter='origin = "EWR" AND distanse > 500'))
    except Problem as problem:
        print(f"{problem.kind} in {problem.parameter}, character {problem.position}: {problem}")
        print(f"hint: {problem.hint}")


def show_put(flights: Collection) -> None:
    key = ("2014-01-01T12:00:00Z", "UA", "7000")
    flights.put(*key, record={"origin": "EWR", "dest": "São Paulo & back", "distance": 4759})
    print(json.dumps(flights.get(*key)))
    print(flights.get("2014-01-01T12:00:00Z", "UA", "7001"))


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[2] not in ("pages", "problem", "put", "export"):
        sys.exit("usage: client.py URL pages|problem|put|export")
    url, command = sys.argv[1:]
    flights = Collection(url, "flights", os.environ.get("RECTO_TOKEN"))
    if command == "pages":
        show_pages(flights)
    elif command == "problem":
        show_problem(flights)
    elif command == "put":
        show_put(flights)
    elif command == "export":
        for flight in flights.export():
            print(json.dumps(flight))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
