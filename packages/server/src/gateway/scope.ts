/**
 * Whose keys a request's are, derived once, from what was authenticated: everything else that the request says of it is
 * the service's to compare. A credential is kept as its digest, since scopes are kept beside keys for people to read.
 */
import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import type { TLSSocket } from "node:tls";
import { NevertwiceError } from "nevertwice";
import { ConfigError } from "../config-error.ts";
import type { ScopeRule } from "../gateway-rules.ts";
import { claimsOf, type JwtKey, publicKey } from "./jwt.ts";

export type Scope = "anyone" | ((req: IncomingMessage) => string | Promise<string>);

/** Names that promise a secret. */
const SECRET_NAME = /auth|cookie|token|key|secret|session/i;
/** A part of an identity has its limit, in bytes. */
const MAX_LENGTH = 256;
const MIN_SECRET = 16;

/** Reads the keys that the rule names; fails with what is wrong with them. */
export function scopeOf(
  rule: ScopeRule,
  env: Readonly<Record<string, string | undefined>> = process.env,
  now: () => number = Date.now,
): Scope {
  if (rule === "anyone") return rule;
  if ("header" in rule) return (req) => ofHeader(req, rule.header);
  if ("certificate" in rule) return (req) => ofCertificate(req, rule.certificate);
  const rules = { ...rule, key: keyIn(rule.key, env) };
  return (req) => {
    const bearer = /^Bearer +(\S+)$/i.exec(oneLine(req, "authorization") ?? "")?.[1];
    const claims = bearer === undefined ? undefined : claimsOf(bearer, rules, now());
    const value = claims && Object.hasOwn(claims, rule.jwt) ? claims[rule.jwt] : undefined;
    const owner = typeof value === "number" ? String(value) : value;
    if (typeof owner === "string" && owner !== "") return bounded(owner);
    throw unknownCaller(`a signed token with ${rule.jwt} in it, that is valid now, in Authorization: Bearer`);
  };
}

/** The headers from which scopes are read, in lower case. */
export function scopeHeader(rule: ScopeRule): string | undefined {
  if (rule === "anyone" || "certificate" in rule) return undefined;
  return "header" in rule ? rule.header.toLowerCase() : "authorization";
}

function ofHeader(req: IncomingMessage, name: string): string {
  const value = oneLine(req, name.toLowerCase());
  if (value === undefined || value === "") throw unknownCaller(`the header ${name}`);
  return SECRET_NAME.test(name) ? digestOf(value) : bounded(value);
}

function ofCertificate({ socket }: IncomingMessage, what: "subject" | "fingerprint"): string {
  const { authorized, getPeerX509Certificate } = socket as Partial<TLSSocket>;
  const certificate = authorized === true ? getPeerX509Certificate?.call(socket as TLSSocket) : undefined;
  const value = what === "subject" ? certificate?.subject : certificate?.fingerprint256;
  if (value === undefined || value === "") throw unknownCaller("a certificate of the client");
  return bounded(value);
}

/** Of two lines the service may believe the other one. */
function oneLine(req: IncomingMessage, name: string): string | undefined {
  const lines = req.headersDistinct[name];
  if (lines === undefined || lines.length <= 1) return lines?.[0];
  throw new NevertwiceError(
    "request-invalid",
    `the header ${name} came ${lines.length} times; send it once.`,
  );
}

function bounded(owner: string): string {
  return owner.length > MAX_LENGTH ? digestOf(owner) : owner;
}

function digestOf(text: string): string {
  return `sha256:${hash("sha256", text, "base64url")}`;
}

function unknownCaller(wanted: string): NevertwiceError {
  return new NevertwiceError(
    "not-authenticated",
    `a request with a key must say whose it is: ${wanted} is needed. Nothing was done.`,
  );
}

function keyIn(source: string, env: Readonly<Record<string, string | undefined>>): JwtKey {
  if (!source.startsWith("env:")) {
    try {
      return publicKey(readFileSync(source, "utf8"));
    } catch (error) {
      throw unreadable(source, error as Error);
    }
  }
  const secret = env[source.slice("env:".length)] ?? "";
  if (secret.length >= MIN_SECRET) return { kind: "secret", secret };
  throw new ConfigError(
    "the key of a scope from a token",
    source,
    `the name of a variable that is set, to a secret of at least ${MIN_SECRET} characters`,
  );
}

function unreadable(file: string, cause: Error): ConfigError {
  const wanted = `a PEM file with a public key or certificate of RSA, an elliptic curve or Ed25519 (${cause.message}), or env:NAME`;
  return new ConfigError("the key of a scope from a token", file, wanted, { cause });
}
