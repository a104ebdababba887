/** Reads problem details (RFC 9457). Unknown members are ignored, as the standard asks of clients. */

/** `code` and `retryable` are the members that nevertwice adds. */
export interface ProblemDetails {
  readonly type: string;
  readonly title?: string;
  readonly status?: number;
  readonly detail?: string;
  readonly instance?: string;
  readonly code?: string;
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
