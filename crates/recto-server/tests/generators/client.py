"""Makes requests with the client that openapi-python-client generates: list, query, get, put, patch and batch."""

import sys

from recto_client import Client
from recto_client.api.notes import get_notes, list_notes, put_notes, query_notes
from recto_client.api.users import batch_write_users, get_users, patch_users
from recto_client.models import NotesPut, NotesQuery, UsersBatch, UsersPut

client = Client(base_url=sys.argv[1], raise_on_unexpected_status=True)
FILTER = 'tenant = "acme"'

page = list_notes.sync(client=client, filter_=FILTER, page_size=10)
assert len(page.records) == 10, page
next_page = query_notes.sync(client=client, body=NotesQuery(filter_=FILTER, page_size=10, page_token=page.next_page_token))
assert len(next_page.records) == 10 and next_page.records[0].at < page.records[-1].at, next_page

key = {"tenant": "acme", "at": 1, "id": "1"}
stored = put_notes.sync_detailed(client=client, **key, body=NotesPut(title="from Python"))
assert stored.status_code == 204, stored
assert get_notes.sync(client=client, **key).title == "from Python"

patched = patch_users.sync_detailed(1, client=client, body=UsersPut(note="from Python"))
assert patched.status_code == 204, patched
assert get_users.sync(1, client=client).note == "from Python"
batch = UsersBatch.from_dict({"changes": [{"put": {"id": 7_000, "note": "new"}}, {"delete": [3]}]})
written = batch_write_users.sync(client=client, body=batch)
assert (written.puts, written.deletes) == (1, 1), written

missing = get_users.sync(3, client=client)
assert missing.type_ == "urn:recto:problem:not-found", missing
print("openapi-python-client: lists, queries, gets, puts, patches and batches")
