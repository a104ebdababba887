/**
 * Asks the service what became of a key whose outcome is unknown. Everything but a valid answer in time means that the
 * outcome stays unknown, so a service that is down, slow or wrong never causes a second run.
 */
import type { LapsedClaim, PolicyOptions } from "nevertwice";
import { keptResponse } from "nevertwice/http";
import { request } from "undici";
import { ConfigError } from "../config-error.ts";
import { SERVICE } from "./guarded-listener.ts";

export interface ReconcileRule {
  /** The URL that is asked what became of a request. */
  readonly url: string;
  /** The environment variable with the access token that the service expects. */
  readonly token: string;
  /** How long to wait for the answer, in milliseconds. */
  readonly timeoutMs?: number;
}

export interface ReconcileHow {
  readonly replayHeaders: readonly string[];
  /** Set if the response is replayed for a shorter time than its record is kept. */
  readonly answersForMs: number | undefined;
}

type Reconcile = NonNullable<PolicyOptions["reconcile"]>;
type ReconcileDecision = Awaited<ReturnType<Reconcile>>;

const TIMEOUT_MS = 5_000;
/** So many questions are open at once; further keys stay unknown until they are asked about again. */
const MOST_OPEN = 32;
const MAX_ANSWER_BYTES = 2_097_152;
const MIN_TOKEN = 16;

export function createReconcile(rule: ReconcileRule, how: ReconcileHow, env = process.env): Reconcile {
  const { url, timeoutMs = TIMEOUT_MS } = rule;
  const token = env[rule.token] ?? "";
  if (token.length < MIN_TOKEN)
    throw new ConfigError(
      "token of reconcile",
      `env:${rule.token}`,
      `the name of an environment variable with a token of at least ${MIN_TOKEN} characters`,
    );
  const warn = createWarning(url);
  let open = 0;

  async function ask(lapsed: LapsedClaim): Promise<ReconcileDecision> {
    const { statusCode, body } = await request(url, {
      method: "POST",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        accept: "application/json",
      },
      body: JSON.stringify(toQuestion(lapsed)),
      signal: AbortSignal.any([lapsed.signal, AbortSignal.timeout(timeoutMs)]),
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
    });
    // Redirects are not followed: another host would get the token, and could decide.
    if (statusCode !== 200) {
      // Its error would end the process.
      body.on("error", () => {}).destroy();
      throw new Error(`status ${statusCode}`);
    }
    return toAnswer(JSON.parse(await readText(body)), how);
  }

  return async (lapsed) => {
    if (open >= MOST_OPEN) return { status: "unknown" };
    open++;
    try {
      return await ask(lapsed);
    } catch (error) {
      warn(error);
      return { status: "unknown" };
    } finally {
      open--;
    }
  };
}

function toQuestion({ parts, fence, number, deriveKey }: LapsedClaim): object {
  const { scope, operation, key } = parts;
  return {
    key: deriveKey(SERVICE),
    // Each attempt that was forwarded had a lower fence.
    fence,
    attempts: number - 1,
    request: { operation, scope, key },
  };
}

async function readText(body: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.byteLength;
    if (size > MAX_ANSWER_BYTES) throw new Error(`more than ${MAX_ANSWER_BYTES} bytes`);
    chunks.push(chunk);
  }
  return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
}

/** Throws for anything that is not exactly one of the three answers. */
function toAnswer(value: unknown, { replayHeaders, answersForMs }: ReconcileHow): ReconcileDecision {
  const { status, response } = (isObject(value) ? value : {}) as { status?: unknown; response?: unknown };
  if (status === "not-done" || status === "unknown") return { status };
  if (status !== "done") throw new Error("no status of done, not-done or unknown");
  if (!isObject(response)) throw new Error("done without a response");
  const { status: code, headers = {}, body = "" } = response;
  if (!Number.isInteger(code) || (code as number) < 200 || (code as number) > 599)
    throw new Error("a response without a status from 200 to 599");
  if (!isObject(headers) || !Object.values(headers).every((text) => typeof text === "string"))
    throw new Error("headers that are not text");
  if (typeof body !== "string") throw new Error("a body that is not text");
  const kept = keptResponse(
    { status: code as number, headers: Object.entries(headers) as [string, string][], body },
    { replayHeaders, ...(answersForMs !== undefined && { answersUntil: Date.now() + answersForMs }) },
  );
  return { status: "done", value: kept };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Each reason is reported once, since every retry of a client asks again. The text of an answer is never reported. */
function createWarning(url: string): (error: unknown) => void {
  const { origin, pathname } = new URL(url);
  const seen = new Set<string>();
  return (error) => {
    const { name, message, code } = error as Error & { readonly code?: string };
    const reason = name === "SyntaxError" ? "no JSON" : (code ?? (name === "Error" ? message : name));
    if (seen.size >= 20 || seen.has(reason)) return;
    seen.add(reason);
    process.emitWarning(
      `the service gave no valid answer about a key at ${origin}${pathname}: ${reason}. The key stays held. This warning appears once for each reason.`,
      { type: "NevertwiceWarning", code: "NEVERTWICE_RECONCILE" },
    );
  };
}
