/** Reads problem details (RFC 9457). Unknown members are ignored, as the standard asks of clients. */

/** `code` and `retryable` are the members that nevertwice adds. */
export interface ProblemDetails {
  /** A URI that names the kind of problem; `about:blank` if there is none. */
  readonly type: string;
  /** A short title. */
  readonly title?: string;
  /** The HTTP status, repeated in the body. */
  readonly status?: number;
  /** What went wrong, in a sentence. */
  readonly detail?: string;
  /** A URI of this one occurrence. */
  readonly instance?: string;
  /** The error code of nevertwice, if the server runs it. */
  readonly code?: string;
  /** Whether the same request can succeed when it is sent again. */
  readonly retryable?: boolean;
}

const MEMBERS = {
  type: "string",
  title: "string",
  status: "number",
  detail: "string",
  instance: "string",
  code: "string",
  retryable: "boolean",
} as const;

/** Reads a clone, so the response can still be read. Undefined if the response is no problem, or a malformed one. */
export async function problemOf(response: Response): Promise<ProblemDetails | undefined> {
  if (!isProblem(response)) return undefined;
  const copy = response.clone();
  const body: unknown = await copy.json().catch(() => undefined);
  if (typeof body !== "object" || body === null || Array.isArray(body)) return undefined;
  const members = body as Record<string, unknown>;
  const problem: Record<string, unknown> = { type: "about:blank" };
  for (const [name, type] of Object.entries(MEMBERS))
    if (typeof members[name] === type) problem[name] = members[name];
  return problem as unknown as ProblemDetails;
}

function isProblem({ headers }: Response): boolean {
  return /^\s*application\/problem\+json\s*(;|$)/i.test(headers.get("content-type") ?? "");
}
