/** Reads the `[contract]` of a node: its two functions, timeout, retry and key. */
import { BACKOFF_DEFAULTS, backoffMs, STRATEGIES } from "../../core/backoff.ts";
import type { Contract, EffectShell, PureCore, Retry } from "../model.ts";
import { type Document, isManifestFault } from "./document.ts";
import { hintsFor, isText, shown, type TableReader } from "./table-reader.ts";

/** Reasons that a retry cannot fix. */
const NEVER_RETRIED: readonly string[] = ["effect-denied", "key-missing", "key-invalid"];

/** Replaces a missing function. It never runs: the missing function is reported as a problem. */
const noCode = () => undefined;

export function readContract(document: Document, node: TableReader, isSource: boolean): Contract {
  const contract = node.table("contract");
  if (contract === undefined) {
    if (!node.has("contract"))
      node.missing("contract", 'add [contract] with effect_shell = "./file.js#name"');
    return { pureCore: noCode, effectShell: noCode };
  }
  const hasCore = contract.has("pure_core");
  const pureCore = isSource && !hasCore ? passOn : codeIn(document, contract, "pure_core");
  const effectShell = codeIn(document, contract, "effect_shell");
  const timeoutMs = contract.duration("timeout", "5s");
  const retry = readRetry(contract, timeoutMs);
  const longestMs = longestRunMs(timeoutMs, retry);
  const idempotency = readIdempotency(contract, longestMs);
  contract.done({
    timeout_ms: 'write timeout = "5s"',
    ...hintsFor("write it in idempotency = { … }", ["on_lapsed", "retention", "key"]),
    ...hintsFor("write it in retry = { … }", ["strategy", "max", "on", "base", "base_ms"]),
    ...hintsFor("write pure_core", ["core", "transform"]),
    ...hintsFor("write effect_shell", ["shell", "execute"]),
  });
  return {
    pureCore: pureCore as PureCore,
    effectShell: effectShell as EffectShell,
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(retry && { retry }),
    ...(idempotency && { idempotency }),
  };
}

/** The default core of a source returns the payload unchanged. */
function passOn(payload: unknown): unknown {
  return payload;
}

function codeIn(document: Document, contract: TableReader, key: string): unknown {
  const value = contract.value(key);
  if (value === undefined) {
    contract.missing(key, `add ${key} = "./file.js#name"`);
    return noCode;
  }
  const found = document.findCode(value);
  if (isManifestFault(found)) contract.wrong(key, found.problem, found.fix);
  else if (typeof found.code === "function") return found.code;
  else contract.wrong(key, `${shown(value)} is ${shown(found.code)}`, "name a function");
  return noCode;
}

function readRetry(contract: TableReader, timeoutMs: number | undefined): Retry | undefined {
  const table = contract.table("retry");
  if (table === undefined) return undefined;
  const strategy = table.oneOf("strategy", STRATEGIES) ?? BACKOFF_DEFAULTS.strategy;
  const max = table.whole("max", 1);
  if (!table.has("max")) table.missing("max", "add max = 3 for up to four tries");
  const baseMs = table.duration("base", "100ms") ?? BACKOFF_DEFAULTS.baseMs;
  const capMs = table.duration("cap", "30s") ?? Math.max(BACKOFF_DEFAULTS.capMs, baseMs);
  if (baseMs > capMs)
    table.wrong("base", "contract.retry.base is longer than its cap", "make base the shorter one");
  const jitter = table.share("jitter") ?? BACKOFF_DEFAULTS.jitter;
  const on = table.texts("on", '["timeout"]') ?? [];
  if (on.includes("timeout") && timeoutMs === undefined && !contract.has("timeout"))
    table.wrong(
      "on",
      "contract.retry.on lists timeout, but the node has no timeout",
      'add timeout = "5s" to [contract]',
    );
  const permanent = on.find((reason) => NEVER_RETRIED.includes(reason));
  if (permanent !== undefined)
    table.wrong(
      "on",
      `${shown(permanent)} is never retried`,
      "remove it: another try would fail the same way",
    );
  table.done({
    base_ms: 'write base = "100ms"',
    ...hintsFor('write cap = "30s"', ["cap_ms", "max_ms", "max_delay_ms"]),
    ...hintsFor("write max, which counts retries: 3 is up to four tries", [
      "attempts",
      "tries",
      "max_attempts",
    ]),
    ...hintsFor("write on", ["reasons", "errors"]),
  });
  return { strategy, max: max ?? 1, baseMs, capMs, jitter, on };
}

/** The longest time that all tries of one message can take, as far as it is known. */
function longestRunMs(timeoutMs = 0, retry?: Retry): number {
  const max = retry?.max ?? 0;
  // The later waits are all equal to the cap, so a sum of a thousand waits is long enough.
  const waits = Array.from({ length: Math.min(max, 1_000) }, (_, index) =>
    retry === undefined ? 0 : backoffMs(retry, index + 1, 0),
  );
  return timeoutMs * (max + 1) + waits.reduce((sum, waitMs) => sum + waitMs, 0);
}

function shownMs(ms: number): string {
  return ms % 1_000 === 0 ? `${ms / 1_000}s` : `${ms}ms`;
}

function readIdempotency(contract: TableReader, longestMs: number): Contract["idempotency"] {
  const table = contract.table("idempotency");
  if (table === undefined) return undefined;
  const fields = readFields(table);
  const retentionMs = table.duration("retention", "30d");
  if (retentionMs !== undefined && retentionMs < longestMs)
    table.wrong(
      "retention",
      `contract.idempotency.retention is shorter than the ${shownMs(longestMs)} that all tries of one message may take`,
      `write at least "${shownMs(longestMs)}"`,
    );
  const onLapsed = table.oneOf("on_lapsed", ["takeover", "hold"]);
  table.done({
    fields: 'write key = ["a", "b"]',
    ...hintsFor('write retention = "1h"', ["ttl", "ttl_ms", "idempotency_ttl_ms", "window_ms"]),
  });
  return {
    fields,
    ...(retentionMs !== undefined && { retentionMs }),
    ...(onLapsed !== undefined && { onLapsed }),
  };
}

/** One field is written as text, several as a list. */
function readFields(table: TableReader): readonly string[] {
  const value = table.value("key");
  if (value === undefined) table.missing("key", 'add key = "request_id"');
  if (value === undefined || Array.isArray(value))
    return table.texts("key", '["tenant", "request_id"]') ?? [];
  const listed = typeof value === "string" ? value.replace(/^fields:/, "").split(",") : [];
  if (listed.length > 1 || (typeof value === "string" && value.startsWith("fields:"))) {
    const list = listed.map((field) => JSON.stringify(field.trim())).join(", ");
    table.wrong(
      "key",
      `contract.idempotency.key is ${shown(value)}, which would be the name of one field`,
      `write key = [${list}]`,
    );
    return [];
  }
  if (isText(value)) return [value];
  table.wrong(
    "key",
    `contract.idempotency.key is ${shown(value)}`,
    'write the name of a field, e.g. key = "request_id"',
  );
  return [];
}
