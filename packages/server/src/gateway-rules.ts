/** The rules of the gateway's routes, as a configuration file has them. The first that fits a request holds. */

import { durationMs } from "nevertwice/env";
import type { FingerprintHow, KeepDecision, ProfileName } from "nevertwice/http";
import { ConfigError } from "./config-error.ts";
import { patternOf } from "./gateway/route-match.ts";

/** Whose keys a request's are. */
export type ScopeRule =
  | "anyone"
  /** A header that something before the gateway sets, and that clients cannot; or their credential itself. */
  | { readonly header: string }
  /** A claim of a signed JSON Web Token in `Authorization`; `key` is a PEM file, or `env:NAME` for a secret. */
  | {
      readonly jwt: string;
      readonly key: string;
      readonly issuer?: string;
      readonly audience?: string;
    }
  /** The subject or fingerprint of the client's certificate. */
  | { readonly certificate: "subject" | "fingerprint" };

export interface GatewayRule {
  /** `/payments` and nothing else, or `/payments/*` for all below. */
  readonly path: string;
  readonly methods: readonly string[];
  readonly required: boolean;
  readonly scope: ScopeRule;
  readonly profile?: ProfileName;
  readonly fingerprint?: Extract<FingerprintHow, string>;
  readonly maxBodyBytes?: number;
  readonly replayHeaders?: readonly string[];
  readonly leaseMs?: number;
  readonly retentionMs?: number;
  /** How long a duplicate waits for the first; absent: it is told to come back. */
  readonly waitMs?: number;
  readonly onLapsed?: "takeover" | "hold";
  /** What becomes of the key by the status of the answer (`404`) or its class (`5xx`), where it differs from the default. */
  readonly keep?: Readonly<Record<string, KeepDecision>>;
  /** What an answer that was lost on the way from the service means for the key. */
  readonly onUpstreamLost: "unknown" | "release";
}

const METHODS = ["POST", "PATCH"] as const;

type Read = (where: string, value: unknown) => unknown;

/** Each line of a route: how it is read, and into what. */
const LINES: Readonly<Record<string, { readonly into: keyof GatewayRule; readonly read: Read }>> = {
  path: { into: "path", read: readPath },
  methods: { into: "methods", read: readMethods },
  required: { into: "required", read: readSwitch },
  scope: { into: "scope", read: readScope },
  profile: { into: "profile", read: readText },
  fingerprint: { into: "fingerprint", read: readChoice("json", "raw", "content-digest", "none") },
  max_body_bytes: { into: "maxBodyBytes", read: readCount },
  replay_headers: { into: "replayHeaders", read: readTexts },
  lease: { into: "leaseMs", read: readDuration },
  retention: { into: "retentionMs", read: readDuration },
  wait: { into: "waitMs", read: readDuration },
  on_lapsed: { into: "onLapsed", read: readChoice("takeover", "hold") },
  keep: { into: "keep", read: readKeep },
  on_upstream_lost: { into: "onUpstreamLost", read: readChoice("unknown", "release") },
};

export function rulesIn(file: string, lines: unknown): readonly GatewayRule[] {
  if (lines === undefined) return [];
  if (!Array.isArray(lines))
    throw new ConfigError(`routes in ${file}`, lines, "a list of tables, [[routes]]");
  return lines.map((route: unknown, index) => ruleIn(`route ${index + 1} in ${file}`, route));
}

function ruleIn(where: string, route: unknown): GatewayRule {
  if (!isTable(route)) throw new ConfigError(where, route, "a table, [[routes]]");
  const given = Object.entries(route).map(([line, value]) => {
    const known = Object.hasOwn(LINES, line) ? LINES[line] : undefined;
    if (known === undefined)
      throw new ConfigError(`${line} of ${where}`, value, `one of ${Object.keys(LINES).join(", ")}`);
    return [known.into, known.read(`${line} of ${where}`, value)];
  });
  const rule = {
    methods: METHODS,
    required: false,
    onUpstreamLost: "unknown",
    ...Object.fromEntries(given),
  } as GatewayRule;
  if (rule.path === undefined)
    throw new ConfigError(`path of ${where}`, undefined, 'e.g. "/payments" or "/api/*"');
  if (rule.scope === undefined) throw new ConfigError(`scope of ${where}`, undefined, SCOPES);
  return rule;
}

const SCOPES =
  '"anyone", { header = "NAME" }, { jwt = "CLAIM", key = "FILE or env:NAME" } or { certificate = "subject" or "fingerprint" }';
const SCOPE_TEXTS =
  "anyone, header:NAME, jwt:CLAIM:FILE, jwt:CLAIM:env:NAME, certificate:subject or certificate:fingerprint";

/** As a flag has it: `header:x-tenant`, `jwt:sub:env:JWT_SECRET`. */
export function readScopeText(where: string, text: string): ScopeRule {
  const [kind = "", what = "", ...rest] = text.split(":");
  const key = rest.join(":");
  const scope = scopeIn(kind === "jwt" ? { jwt: what, key } : what === "" ? kind : { [kind]: what });
  if (scope === undefined || (kind !== "jwt" && key !== "")) throw new ConfigError(where, text, SCOPE_TEXTS);
  return scope;
}

function readScope(where: string, value: unknown): ScopeRule {
  const scope = scopeIn(value);
  if (scope === undefined) throw new ConfigError(where, value, SCOPES);
  return scope;
}

function scopeIn(value: unknown): ScopeRule | undefined {
  if (value === "anyone") return value;
  const isText = (text: unknown) => typeof text === "string" && text !== "";
  if (!isTable(value) || !Object.values(value).every(isText)) return undefined;
  const names = Object.keys(value).sort().join();
  if (names === "header" && isName(value.header)) return { header: value.header };
  if (names === "certificate" && (value.certificate === "subject" || value.certificate === "fingerprint"))
    return { certificate: value.certificate };
  if (/^(audience,)?(issuer,)?jwt,key$/.test(names)) return value as { jwt: string; key: string };
  return undefined;
}

function readPath(where: string, value: unknown): string {
  const wanted = 'a path like "/payments", or "/payments/*" for all below it';
  if (typeof value !== "string" || !/^\/[^*?#]*\*?$/.test(value) || /[^/]\*$/.test(value))
    throw new ConfigError(where, value, wanted);
  try {
    patternOf({ path: value, methods: METHODS });
  } catch (error) {
    throw noPattern(where, value, wanted, error);
  }
  return value;
}

function noPattern(where: string, value: string, wanted: string, cause: unknown): ConfigError {
  return new ConfigError(where, value, `${wanted}, without empty or dot segments, escapes and semicolons`, {
    cause,
  });
}

function readKeep(where: string, value: unknown): Readonly<Record<string, KeepDecision>> {
  const isFit = ([status, decision]: [string, unknown]) =>
    /^([1-5]xx|[2-5]\d\d)$/.test(status) && /^(keep|release|unknown|marker)$/.test(String(decision));
  if (isTable(value) && Object.entries(value).every(isFit)) return value as Record<string, KeepDecision>;
  throw new ConfigError(where, value, 'a table like { 404 = "keep", 5xx = "unknown" }');
}

function readMethods(where: string, value: unknown): readonly string[] {
  const isFit = (method: unknown) => typeof method === "string" && /^(POST|PATCH|PUT|DELETE)$/.test(method);
  if (Array.isArray(value) && value.length > 0 && value.every(isFit)) return value;
  throw new ConfigError(where, value, 'a list of POST, PATCH, PUT and DELETE, e.g. ["POST"]');
}

function readSwitch(where: string, value: unknown): boolean {
  if (typeof value === "boolean") return value;
  throw new ConfigError(where, value, "true or false");
}

function readText(where: string, value: unknown): string {
  if (typeof value === "string" && value !== "") return value;
  throw new ConfigError(where, value, "text in quotes");
}

function readTexts(where: string, value: unknown): readonly string[] {
  if (Array.isArray(value) && value.every(isName)) return value;
  throw new ConfigError(where, value, 'a list of names of headers, e.g. ["x-request-cost"]');
}

function readCount(where: string, value: unknown): number {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw new ConfigError(where, value, "a whole number of bytes");
}

function readDuration(where: string, value: unknown): number {
  return durationMs(where, readText(where, value));
}

function readChoice(...choices: readonly string[]): Read {
  return (where, value) => {
    if (choices.includes(value as string)) return value;
    throw new ConfigError(where, value, `one of ${choices.join(", ")}`);
  };
}

function isName(value: unknown): value is string {
  return typeof value === "string" && /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(value);
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Without a rule for some paths, there is one for all: nothing is guarded before it is said whose keys are whose. */
export function rulesOf({
  routes,
  gatewayScope,
}: {
  readonly routes: readonly GatewayRule[];
  readonly gatewayScope: ScopeRule | undefined;
}): readonly GatewayRule[] {
  if (gatewayScope !== undefined)
    return [
      ...routes,
      { path: "/*", methods: METHODS, required: false, scope: gatewayScope, onUpstreamLost: "unknown" },
    ];
  if (routes.length > 0) return routes;
  throw new ConfigError(
    "gateway-scope",
    undefined,
    "given with upstream, unless the file has [[routes]]: whose keys are whose? e.g. --gateway-scope jwt:sub:FILE, or anyone",
  );
}

/** What an operator should know about the rules before a client finds out. */
export function warningsAbout(rules: readonly GatewayRule[]): readonly string[] {
  return rules.flatMap(({ path, scope }) => {
    if (typeof scope !== "object" || !("header" in scope) || !/^(authorization|cookie)$/i.test(scope.header))
      return [];
    return [
      `the keys of ${path} belong to the text of the header ${scope.header}. A client whose token or session is renewed between two tries is a new owner, and its request runs again; any text is an owner, so strangers have keys too. Take the owner from what does not change: scope = { jwt = "sub", key = "..." }.`,
    ];
  });
}
