/** Tests that two owners never share a scope, whatever their names and sources are; one owner always has the same scope. */
import { createHmac, hash, type X509Certificate } from "node:crypto";
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ScopeRule } from "../src/gateway/gateway-rules.ts";
import { createScope, type Scope } from "../src/gateway/scope.ts";
import { certificateFor, type NameLine } from "./gateway/certificate.ts";

const PAIRS = 10_000;
const TIMEOUT_MS = 240_000;
const SECRET = "a secret of enough characters";
const NOW_MS = Date.parse("2026-01-01");

/** An owner, and the request that proves it. Two entries with one `name` are one owner. */
interface Owner {
  readonly name: string;
  readonly rule: ScopeRule;
  readonly request: IncomingMessage;
}

interface Source {
  readonly title: string;
  /** Owners with this text somewhere in their name, each made only if it is chosen. */
  readonly ownersOf: (text: string) => readonly (() => Owner)[];
}

const scopes = new Map<string, Exclude<Scope, "anyone">>();

async function scopeFor({ rule, request }: Owner): Promise<string> {
  const name = JSON.stringify(rule);
  const scope = scopes.get(name) ?? createScope(rule, { JWT_SECRET: SECRET }, () => NOW_MS);
  if (scope === "anyone") throw new Error("the rule has no owners");
  scopes.set(name, scope);
  return scope(request);
}

const PLAIN_SOCKET = new Socket();

function requestWith(
  headersDistinct: Record<string, string[]>,
  certificate?: X509Certificate,
): IncomingMessage {
  const told = { authorized: true, getPeerX509Certificate: () => certificate };
  const socket = certificate === undefined ? PLAIN_SOCKET : Object.assign(new Socket(), told);
  return Object.assign(new IncomingMessage(socket), { headersDistinct });
}

/** The texts that a header can contain, without surrounding spaces, which are not part of the value. */
function headerValue(text: string): string {
  const bytes = Buffer.from(text).toString("latin1");
  return bytes.replace(/[^\t\x20-\x7e\x80-\xff]/g, "").replace(/^[ \t]+|[ \t]+$/g, "") || "nobody";
}

function fromHeader(header: string, text: string): Owner {
  const value = headerValue(text);
  return {
    name: JSON.stringify(["header", header, value]),
    rule: { header },
    request: requestWith({ [header.toLowerCase()]: [value] }),
  };
}

function fromToken(claim: string, claims: Readonly<Record<string, unknown>>): Owner {
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const content = `${encode({ alg: "HS256" })}.${encode(claims)}`;
  const token = `${content}.${createHmac("sha256", SECRET).update(content).digest("base64url")}`;
  return {
    name: JSON.stringify(["jwt", claim, claims[claim], claims.iss ?? null]),
    rule: { jwt: claim, key: "env:JWT_SECRET" },
    request: requestWith({ authorization: [`Bearer ${token}`] }),
  };
}

function fromCertificate(what: "subject" | "fingerprint", issuer: NameLine[], subject: NameLine[]): Owner {
  return {
    // Nothing in these certificates but their names differs, so that each is known by them.
    name: JSON.stringify(["certificate", what, issuer, subject]),
    rule: { certificate: what },
    request: requestWith({}, certificateFor(issuer, subject)),
  };
}

const LINE = { field: "CN", type: "utf8", text: "ca" } as const;

function namesWith(text: string): readonly (readonly [NameLine[], NameLine[]])[] {
  const lines = text.split(/[\n,+]/).map((part) => ({ ...LINE, text: part || "-" }));
  const one = { ...LINE, text: text || "-" };
  const isAscii = /^[\x20-\x7e]+$/.test(one.text);
  return [
    [[LINE], [one]],
    [[one], [LINE]],
    [[LINE], lines],
    [[LINE], [{ ...one, field: "O" }]],
    ...(isAscii ? [[[LINE], [{ ...one, type: "ia5" as const }]] as [NameLine[], NameLine[]]] : []),
  ];
}

const numberIn = (text: string) => Number.parseInt(hash("sha256", text, "hex").slice(0, 13), 16);

const SOURCES: readonly Source[] = [
  {
    title: "a header",
    ownersOf: (text) => ["X-Tenant", "X-User"].map((name) => () => fromHeader(name, text)),
  },
  {
    title: "a header with a credential",
    ownersOf: (text) => ["Authorization", "X-Api-Key"].map((name) => () => fromHeader(name, text)),
  },
  {
    title: "a text in a token",
    ownersOf: (text) => [
      () => fromToken("sub", { sub: text || "-" }),
      () => fromToken("sub", { sub: "alice", iss: text || "-" }),
      ...[text.indexOf(":s:"), text.lastIndexOf(":s:")]
        .filter((at) => at > 0 && at + 3 < text.length)
        .map((at) => () => fromToken("sub", { iss: text.slice(0, at), sub: text.slice(at + 3) })),
      () => fromToken("sub@x", { "sub@x": text || "-" }),
      () => fromToken("sub", { sub: text || "-", iss: "x" }),
    ],
  },
  {
    title: "a number in a token",
    ownersOf: (text) => {
      const number = Number(text) || numberIn(text);
      const safe = Number.isSafeInteger(number) ? number : numberIn(text);
      return [safe, String(safe)].map((sub) => () => fromToken("sub", { sub }));
    },
  },
  {
    title: "the names in a certificate",
    ownersOf: (text) =>
      namesWith(text.slice(0, 2_000)).map((names) => () => fromCertificate("subject", ...names)),
  },
  {
    title: "the fingerprint of a certificate",
    ownersOf: (text) =>
      namesWith(text.slice(0, 2_000)).map((names) => () => fromCertificate("fingerprint", ...names)),
  },
];

const EVERY_OWNER = (text: string) => SOURCES.flatMap(({ ownersOf }) => ownersOf(text));

function chosen(owners: readonly (() => Owner)[], index: number): Owner {
  return (owners[index % owners.length] as () => Owner)();
}

/** Each makes a text that looks like the scope of another owner, or like another spelling of the same name. */
const LOOKALIKES: readonly ((text: string, scope: string, nth: number) => string)[] = [
  (text) => text,
  (_, scope) => scope,
  (_, scope) => scope.split(":").slice(1).join(":"),
  (_, scope) => scope.split(":").slice(2).join(":"),
  (_, scope) => scope.split(":").slice(3).join(":"),
  (_, scope, nth) => {
    const pieces = scope.split(":");
    return pieces.slice(nth % pieces.length).join(":");
  },
  (_, scope) => scope.replaceAll("\\", ""),
  (text) => `sha256:${hash("sha256", text, "base64url")}`,
  (text) => hash("sha256", text, "base64url"),
  (text) => `s:${text}`,
  (text) => `n:${text}`,
  (text) => `${text} `,
  (text) => `${text}|x`,
  (text) => `${text}\\`,
  (text) => text.toUpperCase(),
  (text) => text.normalize("NFD"),
  (text) => text.normalize("NFC"),
  (text) => Buffer.from(text).toString("latin1"),
  (text) => encodeURIComponent(text),
];

const someText = fc.oneof(
  fc.string({ unit: "binary", minLength: 1, maxLength: 40 }),
  fc.string({ unit: fc.constantFrom(..."aA:|\\@%#s n42,+=\n\u00e9"), minLength: 1, maxLength: 12 }),
  // A long text is repeated, because fast-check needs much time to draw hundreds of characters.
  fc.string({ unit: "grapheme", minLength: 20, maxLength: 28 }).map((part) => part.repeat(25)),
  fc.array(fc.constantFrom("a", "b", "x"), { minLength: 3, maxLength: 5 }).map((parts) => parts.join(":s:")),
  fc.maxSafeInteger().map(String),
  fc.constantFrom("CN=alice", "sha256:", "42", "jwt:sub:s:alice", "header:x-tenant:s:a", "alice"),
);

describe("two owners never share a scope, and one owner always has the same", () => {
  test.each(SOURCES)(
    "from $title, compared with every source",
    { timeout: TIMEOUT_MS },
    async ({ ownersOf }) => {
      const pair = fc.tuple(someText, someText, fc.nat(), fc.nat(), fc.nat(), fc.boolean());
      const meets = fc.asyncProperty(pair, async ([text, another, first, second, third, isAlike]) => {
        const owners = ownersOf(text);
        const one = chosen(owners, first);
        const scope = await scopeFor(one);
        const alike = LOOKALIKES[third % LOOKALIKES.length] as (typeof LOOKALIKES)[number];
        const others = (second % 2 === 0 ? ownersOf : EVERY_OWNER)(
          isAlike ? alike(text, scope, first) : another,
        );
        const two = chosen(others, second);
        // `expect` would take longer than what it checks.
        if ((scope === (await scopeFor(two))) !== (one.name === two.name))
          throw new Error(`${one.name} and ${two.name} do not differ as their scopes do: ${scope}`);
        if ((await scopeFor(chosen(owners, first))) !== scope)
          throw new Error(`${one.name} has a second scope beside ${scope}`);
        if (Buffer.byteLength(scope) > 1_024)
          throw new Error(`${one.name} has a scope that is too long: ${scope}`);
      });
      await fc.assert(meets, { numRuns: PAIRS });
    },
  );
});

test("a token over 16,384 characters is refused before it is read", async () => {
  const { rule, request } = fromToken("sub", { sub: "alice", more: "x".repeat(16_384) });
  await expect(scopeFor({ name: "", rule, request })).rejects.toMatchObject({ code: "not-authenticated" });
});

test("a certificate without a subject is refused", async () => {
  await expect(async () => scopeFor(fromCertificate("subject", [LINE], []))).rejects.toMatchObject({
    code: "not-authenticated",
  });
});

test("a name of a header or claim that is too long for a scope is refused at the start", () => {
  expect(() => createScope({ header: "x".repeat(201) })).toThrow(/at most 200 bytes/);
});
