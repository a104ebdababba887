/**
 * Derives the owner of the keys of a request from an authenticated header, token or certificate. A scope contains the
 * source, the name and the type of its owner, so that owners from different sources never share keys:
 * `header:x-tenant:s:acme`, `jwt:sub:n:42`. Credentials and long values are digests, since operators see scopes in lists.
 */
import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import type { TLSSocket } from "node:tls";
import { compositeKey, NevertwiceError } from "nevertwice";
import { ConfigError } from "../config-error.ts";
import { certificateNames } from "./certificate-names.ts";
import type { ScopeRule } from "./gateway-rules.ts";
import { type JwtKey, publicKey, secretKey, verifiedPayload } from "./jwt.ts";
import { type Owner, readOwner } from "./token-owner.ts";

export type Scope = "anyone" | ((req: IncomingMessage) => string | Promise<string>);

type Env = Readonly<Record<string, string | undefined>>;
type JwtRule = Extract<ScopeRule, { readonly jwt: string }>;

/** Names of headers that probably contain a secret. */
const SECRET_NAME = /auth|cookie|token|key|secret|session/i;
/** A part of an identity may have 1,024 bytes, and escaping can double a text. */
const MAX_TEXT_BYTES = 512;
const MAX_NAME_BYTES = 200;
const MIN_SECRET = 16;

/** Reads the verification key of a JWT rule. Throws a `ConfigError` if it is missing or invalid. */
export function createScope(rule: ScopeRule, env: Env = process.env, now: () => number = Date.now): Scope {
  if (rule === "anyone") return rule;
  if ("certificate" in rule) return (req) => certificateScope(req, rule.certificate);
  checkName("header" in rule ? rule.header : rule.jwt);
  return "header" in rule ? (req) => headerScope(req, rule.header) : jwtScope(rule, env, now);
}

/** The header that contains the owner, in lower case. */
export function scopeHeader(rule: ScopeRule): string | undefined {
  if (rule === "anyone" || "certificate" in rule) return undefined;
  return "header" in rule ? rule.header.toLowerCase() : "authorization";
}

function headerScope(req: IncomingMessage, header: string): string {
  const name = header.toLowerCase();
  // Node decodes headers as latin1: each byte is one character, so different values stay different.
  const value = oneLine(req, name);
  if (value === undefined || value === "") throw unknownCaller(`the header ${header}`);
  const source = `header:${name}`;
  const text = `${source}:s:${value}`;
  return SECRET_NAME.test(name) ? digestScope(source, text) : textScope(source, text);
}

function jwtScope(rule: JwtRule, env: Env, now: () => number): (req: IncomingMessage) => Promise<string> {
  const rules = { ...rule, key: readJwtKey(rule.key, env) };
  const source = `jwt:${segment(rule.jwt)}`;
  return async (req) => {
    const bearer = /^Bearer +(\S+)$/i.exec(oneLine(req, "authorization") ?? "")?.[1];
    const payload = bearer === undefined ? undefined : await verifiedPayload(bearer, rules, now());
    if (payload === undefined) throw unknownCaller("a valid signed token in `Authorization: Bearer`");
    const owner = readOwner(payload, rule.jwt);
    if (owner === undefined)
      throw unknownCaller(
        `a token whose claim ${rule.jwt} is a non-empty string or an integer within 2^53, and that names no claim twice`,
      );
    return textScope(source, jwtText(source, owner));
  };
}

function jwtText(source: string, { type, value, issuer }: Owner): string {
  return `${source}${issuer === undefined ? "" : `@${segment(issuer)}`}:${type}:${value}`;
}

function certificateScope({ socket }: IncomingMessage, what: "subject" | "fingerprint"): string {
  const { authorized, getPeerX509Certificate } = socket as Partial<TLSSocket>;
  const certificate = authorized === true ? getPeerX509Certificate?.call(socket as TLSSocket) : undefined;
  if (certificate === undefined) throw unknownCaller("a client certificate");
  const source = `certificate:${what}`;
  if (what === "fingerprint") return textScope(source, `${source}:sha256:${certificate.fingerprint256}`);
  const { subject, raw } = certificate;
  if (!subject) throw unknownCaller("a client certificate with a subject");
  // The digest identifies the owner, the text is for people. Two authorities may both have issued an Alice.
  const digest = hash("sha256", certificateNames(raw), "base64url");
  return textScope(source, `${source}:sha256:${digest}:${subject.replaceAll("\n", ", ")}`);
}

/** Refuses a header with two lines, because the service may read the other one. */
function oneLine(req: IncomingMessage, name: string): string | undefined {
  const lines = req.headersDistinct[name];
  if (lines === undefined || lines.length <= 1) return lines?.[0];
  throw new NevertwiceError(
    "request-invalid",
    `the header ${name} came ${lines.length} times; send it once.`,
  );
}

/**
 * Escapes the owner as the API escapes the scope of an access token. Otherwise an access token for one owner could also
 * reach an owner whose name continues with the separator.
 */
function textScope(source: string, text: string): string {
  return Buffer.byteLength(text) > MAX_TEXT_BYTES ? digestScope(source, text) : compositeKey(text).text;
}

/** Cannot collide with `textScope`, whose text after this prefix is never only a digest. */
function digestScope(source: string, text: string): string {
  return compositeKey(`${source}:sha256:${hash("sha256", text, "base64url")}`).text;
}

/** Escapes the separators in the name of a claim or an issuer. */
function segment(name: string): string {
  return name.replace(/[%:@]/g, (character) => encodeURIComponent(character));
}

function checkName(name: string): void {
  if (Buffer.byteLength(name) <= MAX_NAME_BYTES && name.isWellFormed()) return;
  throw new ConfigError(
    "the header or claim of a scope",
    name,
    `well-formed text of at most ${MAX_NAME_BYTES} bytes`,
  );
}

function unknownCaller(wanted: string): NevertwiceError {
  return new NevertwiceError(
    "not-authenticated",
    `the gateway does not know the owner of the key: send ${wanted}. Nothing was done.`,
  );
}

function readJwtKey(source: string, env: Env): JwtKey {
  if (!source.startsWith("env:")) {
    try {
      return publicKey(readFileSync(source, "utf8"));
    } catch (error) {
      throw unreadableKey(source, error as Error);
    }
  }
  const secret = env[source.slice("env:".length)] ?? "";
  if (secret.length >= MIN_SECRET) return secretKey(secret);
  throw new ConfigError(
    "the key of a scope from a token",
    source,
    `the name of an environment variable with a secret of at least ${MIN_SECRET} characters`,
  );
}

function unreadableKey(file: string, cause: Error): ConfigError {
  const wanted = `a PEM file with a public key or certificate of RSA, an elliptic curve or Ed25519 (${cause.message}), or env:NAME`;
  return new ConfigError("the key of a scope from a token", file, wanted, { cause });
}
