/** Problem details (RFC 9457), as a client reads them: what it does not understand, it ignores. */

/** `code` and `retryable` are what servers with nevertwice add. */
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
  title: "string",
  status: "number",
  detail: "string",
  instance: "string",
  code: "string",
  retryable: "boolean",
} as const;

/** Reads a copy of the body, so that the response stays whole. Undefined if it holds no problem, or a broken one. */
export async function problemOf(response: Response): Promise<ProblemDetails | undefined> {
  if (!isProblem(response)) return undefined;
  const copy = response.clone();
  const body: unknown = await copy.json().catch(() => undefined);
  if (typeof body !== "object" || body === null || Array.isArray(body)) return undefined;
  const members = body as Record<string, unknown>;
  const understood = Object.entries(MEMBERS).filter(([name, type]) => typeof members[name] === type);
  return {
    type: typeof members.type === "string" ? members.type : "about:blank",
    ...Object.fromEntries(understood.map(([name]) => [name, members[name]])),
  };
}

function isProblem({ headers }: Response): boolean {
  const [mediaType = ""] = (headers.get("content-type") ?? "").split(";");
  return mediaType.trim().toLowerCase() === "application/problem+json";
}
