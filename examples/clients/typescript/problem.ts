// What a server of Recto says is wrong, for both clients.

export type ProblemBody = {
  type: string;
  status: number;
  detail: string;
  parameter?: string;
  position?: number;
  field?: string;
  hint?: string;
};

/** What the server says is wrong (RFC 9457). */
export class Problem extends Error {
  readonly kind: string;

  constructor(readonly body: ProblemBody) {
    super(body.detail);
    this.kind = body.type.replace("urn:recto:problem:", "");
  }
}

/** The response; what the server says is wrong is thrown. */
export async function checked(response: Response): Promise<Response> {
  if (response.headers.get("Content-Type") === "application/problem+json") {
    throw new Problem((await response.json()) as ProblemBody);
  }
  if (!response.ok) throw new Error(`${response.url} answered ${response.status}`);
  return response;
}
