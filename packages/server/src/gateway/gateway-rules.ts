/** The rules of the gateway, read from the `[[routes]]` of a configuration file. The first that matches a request applies. */
import { durationMs } from "nevertwice/env";
import type { FingerprintHow, KeepDecision, ProfileName } from "nevertwice/http";
import { ConfigError, unknownSettingError } from "../config-error.ts";
import type { ReconcileRule } from "./reconcile.ts";
import { parsePattern } from "./route-match.ts";

/** How the gateway finds the owner of the keys of a request. */
export type ScopeRule =
  | "anyone"
  /** A header that a proxy in front of the gateway sets and clients cannot; or the client's credential itself. */
  | {
      /**
       * The header whose value is the scope. The gateway must be the only way in, since a client could set it.
       */
      readonly header: string;
    }
  /** A claim of a signed JSON Web Token in `Authorization`. `key` is a PEM file, or `env:NAME` for a shared secret. */
  | {
      /** The claim of the token whose value is the scope. */
      readonly jwt: string;
      /** The path of a PEM file, or `env:NAME` for a shared secret in that variable. */
      readonly key: string;
      /** Who must have issued the token. */
      readonly issuer?: string;
      /** Whom the token must be for. */
      readonly audience?: string;
    }
  /** The subject or fingerprint of the client's certificate. */
  | {
      /** What of the client's certificate is the scope. */
      readonly certificate: "subject" | "fingerprint";
    };

/** Which requests the gateway guards, and how. */
export interface GatewayRule {
  /** `/payments` for this path only, `/payments/*` for all paths below it too. A segment `{id}` stands for any one. */
  readonly path: string;
  /** The methods on which a key counts. */
  readonly methods: readonly string[];
  /** Whether a request without a key is refused. */
  readonly required: boolean;
  /** Who a key belongs to. */
  readonly scope: ScopeRule;
  /**
   * The service whose rules apply where services differ.
   * @default "ietf"
   */
  readonly profile?: ProfileName;
  /** The field of the body that carries the key instead of a header. */
  readonly keyField?: string;
  /**
   * The part of the body that is compared.
   * @default "json"
   */
  readonly fingerprint?: Extract<FingerprintHow, string>;
  /** The largest body that is read, in bytes. A larger one is refused with `body-too-large`. */
  readonly maxBodyBytes?: number;
  /** Headers that are replayed in addition to those that always are. */
  readonly replayHeaders?: readonly string[];
  /** How long a claim holds unless it is renewed, in milliseconds. */
  readonly leaseMs?: number;
  /** How long an answer is replayed, in milliseconds. */
  readonly retentionMs?: number;
  /** How long a duplicate waits for the first request. Absent: the gateway refuses it with 409. */
  readonly waitMs?: number;
  /** What a duplicate gets whose response was not kept. Default: the profile's. */
  readonly onNotKept?: "status" | "refuse";
  /** Default `hold`: a second run may be harmful, and only the service knows. */
  readonly onLapsed?: "takeover" | "hold";
  /** Where the service says what became of a held key. */
  readonly reconcile?: ReconcileRule;
  /** How long a held key waits for a decision, before it is refused for good. */
  readonly holdForMs?: number;
  /** What happens to the key for a response status (`404`) or class (`5xx`), where it differs from the default. */
  readonly keep?: Readonly<Record<string, KeepDecision>>;
  /** What happens to the key if the response of the service is lost. */
  readonly onUpstreamLost: "unknown" | "release";
}

const METHODS = ["POST", "PATCH"] as const;

type RuleReader = (where: string, value: unknown) => unknown;

/** For each line of a route: the property of the rule that it sets, and how its value is read. */
const LINES: Readonly<Record<string, { readonly into: keyof GatewayRule; readonly read: RuleReader }>> = {
  path: { into: "path", read: readPath },
  methods: { into: "methods", read: readMethods },
  required: { into: "required", read: readSwitch },
  scope: { into: "scope", read: readScope },
  profile: { into: "profile", read: readText },
  key_field: { into: "keyField", read: readText },
  fingerprint: { into: "fingerprint", read: readChoice("json", "raw", "content-digest", "none") },
  max_body_bytes: { into: "maxBodyBytes", read: readCount },
  replay_headers: { into: "replayHeaders", read: readTexts },
  lease: { into: "leaseMs", read: readDuration },
  retention: { into: "retentionMs", read: readDuration },
  wait: { into: "waitMs", read: readDuration },
  reconcile: { into: "reconcile", read: readReconcile },
  hold_for: { into: "holdForMs", read: readDuration },
  on_not_kept: { into: "onNotKept", read: readChoice("status", "refuse") },
  on_lapsed: { into: "onLapsed", read: readChoice("takeover", "hold") },
  keep: { into: "keep", read: readKeep },
  on_upstream_lost: { into: "onUpstreamLost", read: readChoice("unknown", "release") },
};

export function readRules(file: string, lines: unknown): readonly GatewayRule[] {
  if (lines === undefined) return [];
  if (!Array.isArray(lines))
    throw new ConfigError(`routes in ${file}`, lines, "a list of tables, [[routes]]");
  return lines.map((route: unknown, index) => readRule(`route ${index + 1} in ${file}`, route));
}

function readRule(where: string, route: unknown): GatewayRule {
  if (!isTable(route)) throw new ConfigError(where, route, "a table, [[routes]]");
  const given = Object.entries(route).map(([line, value]) => {
    const known = Object.hasOwn(LINES, line) ? LINES[line] : undefined;
    if (known === undefined) throw unknownSettingError(line, ` of ${where}`, Object.keys(LINES));
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

/** Reads the form of the flag: `header:x-tenant`, `jwt:sub:env:JWT_SECRET`. */
export function readScopeText(where: string, text: string): ScopeRule {
  const [kind = "", what = "", ...rest] = text.split(":");
  const key = rest.join(":");
  const scope = parseScope(kind === "jwt" ? { jwt: what, key } : what === "" ? kind : { [kind]: what });
  if (scope === undefined || (kind !== "jwt" && key !== "")) throw new ConfigError(where, text, SCOPE_TEXTS);
  return scope;
}

function readScope(where: string, value: unknown): ScopeRule {
  const scope = parseScope(value);
  if (scope === undefined) throw new ConfigError(where, value, SCOPES);
  return scope;
}

function parseScope(value: unknown): ScopeRule | undefined {
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
  const wanted =
    'a path such as "/payments" or "/payments/{id}/capture", or "/payments/*" for all paths below it';
  if (typeof value !== "string" || !/^\/[^*?#]*\*?$/.test(value) || /[^/]\*$/.test(value))
    throw new ConfigError(where, value, wanted);
  try {
    parsePattern({ path: value, methods: METHODS });
  } catch (error) {
    throw invalidPath(where, value, wanted, error);
  }
  return value;
}

function invalidPath(where: string, value: string, wanted: string, cause: unknown): ConfigError {
  return new ConfigError(
    where,
    value,
    `${wanted}, without empty or dot segments, escapes, semicolons and other braces`,
    {
      cause,
    },
  );
}

function readKeep(where: string, value: unknown): Readonly<Record<string, KeepDecision>> {
  const isFit = ([status, decision]: [string, unknown]) =>
    /^([1-5]xx|[2-5]\d\d)$/.test(status) && /^(keep|release|unknown|marker)$/.test(String(decision));
  if (isTable(value) && Object.entries(value).every(isFit)) return value as Record<string, KeepDecision>;
  throw new ConfigError(where, value, 'a table such as { 404 = "keep", 5xx = "unknown" }');
}

function readReconcile(where: string, value: unknown): ReconcileRule {
  const wanted = '{ url = "http://127.0.0.1:3000/outcome", token = "env:NAME", timeout = "5s" }';
  const { url, token, timeout, ...others } = isTable(value) ? value : {};
  const name = /^env:(\w+)$/.exec(String(token))?.[1];
  const address = typeof url === "string" && URL.canParse(url) ? new URL(url) : undefined;
  const isFit =
    address !== undefined &&
    /^https?:$/.test(address.protocol) &&
    `${address.username}${address.password}${address.hash}` === "";
  if (!isFit || name === undefined || Object.keys(others).length > 0)
    throw new ConfigError(where, "(hidden)", wanted);
  const timeoutMs = timeout === undefined ? {} : { timeoutMs: readDuration(where, timeout) };
  return { url: address.href, token: name, ...timeoutMs };
}

function readMethods(where: string, value: unknown): readonly string[] {
  const isFit = (method: unknown) => typeof method === "string" && /^(POST|PATCH|PUT|DELETE)$/i.test(method);
  if (Array.isArray(value) && value.length > 0 && value.every(isFit))
    return value.map((method: string) => method.toUpperCase());
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
  throw new ConfigError(where, value, 'a list of header names, e.g. ["x-request-cost"]');
}

function readCount(where: string, value: unknown): number {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw new ConfigError(where, value, "a whole number of bytes");
}

function readDuration(where: string, value: unknown): number {
  return durationMs(where, readText(where, value));
}

function readChoice(...choices: readonly string[]): RuleReader {
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

/**
 * The rules in force: the routes of the file, then one rule for all paths if `gateway-scope` is set. Throws a
 * `ConfigError` if there is neither, since the gateway cannot guard requests without knowing the owner of their keys.
 */
export function gatewayRules({
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
    "set together with upstream unless the file has [[routes]]: it says who owns a key, e.g. --gateway-scope jwt:sub:FILE, or anyone",
  );
}

/** Warnings about rules that are valid but risky. */
export function ruleWarnings(rules: readonly GatewayRule[]): readonly string[] {
  return rules.flatMap(({ path, scope }) => {
    if (typeof scope !== "object" || !("header" in scope) || !/^(authorization|cookie)$/i.test(scope.header))
      return [];
    return [
      `the owner of keys for ${path} is the text of the header ${scope.header}. If a client's token or session is renewed between two tries, the retry has another owner and runs again. The gateway does not verify the text, so anyone can store keys. Use an owner that does not change: scope = { jwt = "sub", key = "..." }.`,
    ];
  });
}
