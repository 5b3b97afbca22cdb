// Requests with openapi-fetch and the types that openapi-typescript generates: list, query, get, put, patch and batch.
import createClient from "openapi-fetch";
import type { paths } from "./generated/schema";

declare const process: { argv: string[] };
const client = createClient<paths>({ baseUrl: process.argv[2] });
const filter = 'tenant = "acme"';

function check(holds: boolean, what: unknown): void {
  if (!holds) {
    throw new Error(JSON.stringify(what));
  }
}

const list = await client.GET("/v1/collections/notes/records", { params: { query: { filter, page_size: 10 } } });
check(list.data?.records.length === 10, list);
const query = await client.POST("/v1/collections/notes/records:query", {
  body: { filter, page_size: 10, page_token: list.data!.next_page_token },
});
check(query.data?.records.length === 10, query);

const note = { params: { path: { tenant: "acme", at: 2, id: "2" } } };
const put = await client.PUT("/v1/collections/notes/records/{tenant},{at},{id}", {
  ...note,
  body: { title: "from TypeScript" },
});
check(put.response.status === 204, put);
const got = await client.GET("/v1/collections/notes/records/{tenant},{at},{id}", note);
check(got.data?.title === "from TypeScript", got);

const user = { params: { path: { id: 2 } } };
const patch = await client.PATCH("/v1/collections/users/records/{id}", { ...user, body: { note: "from TypeScript" } });
check(patch.response.status === 204, patch);
const batch = await client.POST("/v1/collections/users/records:batchWrite", {
  body: { changes: [{ put: { id: 7001, note: "new" } }, { delete: [4] }] },
});
check(batch.data?.puts === 1 && batch.data.deletes === 1, batch);
const missing = await client.GET("/v1/collections/users/records/{id}", { params: { path: { id: 4 } } });
check(missing.error?.type === "urn:recto:problem:not-found", missing);
console.log("openapi-fetch: lists, queries, gets, puts, patches and batches");
