// Problem replies of a Recto server, for both clients.

export type ProblemBody = {
  type: string;
  status: number;
  detail: string;
  parameter?: string;
  position?: number;
  field?: string;
  hint?: string;
};

/** Problem that the server reports (RFC 9457). */
export class Problem extends Error {
  readonly kind: string;

  constructor(readonly body: ProblemBody) {
    super(body.detail);
    this.kind = body.type.replace("urn:recto:problem:", "");
  }
}

/** Returns a successful response. Throws the problem of any other response. */
export async function checked(response: Response): Promise<Response> {
  if (response.headers.get("Content-Type") === "application/problem+json") {
    throw new Problem((await response.json()) as ProblemBody);
  }
  if (!response.ok) throw new Error(`${response.url} answered ${response.status}`);
  return response;
}
