/**
 * Access tokens: who may call the server, as what, and whose keys are theirs. They are kept in the store as records like
 * any other, with a hash in place of the secret, so that all copies of the server know them.
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { createGuard, type Guard, NevertwiceError, type Store } from "nevertwice";
import { recordedValue } from "./recorded-value.ts";

export const ROLES = ["service", "operator", "auditor"] as const;
export type Role = (typeof ROLES)[number];

/** Whoever calls, and what is theirs. */
export interface Caller {
  /** For logs: the token's name, or who else it is. */
  readonly name: string;
  readonly roles: readonly Role[];
  readonly namespace: string;
  /** Whose keys a service's are. */
  readonly scope: string;
  /** The token's public half, by which it is known again without its secret; undefined for who needs no token. */
  readonly tokenId?: string;
  /** Whether figures of the whole server are shown to it, and not only those of its namespace. */
  readonly seesServer?: true;
}

/** The namespace whose figures a caller may see; undefined for those of the whole server. */
export function figuresFor({ namespace, seesServer }: Caller): string | undefined {
  return seesServer === true ? undefined : namespace;
}

/** Who may see figures: what happened, and how often. */
export const WATCHERS: readonly Role[] = ["operator", "auditor"];

export interface AccessToken {
  readonly id: string;
  readonly name: string;
  readonly role: Role;
  readonly namespace: string;
  readonly scope: string;
  readonly createdAt: string;
}

export interface AccessRequest {
  readonly name: string;
  readonly role: Role;
  readonly namespace?: string | undefined;
  /** Default: the token's name. Tokens with one scope share their keys. */
  readonly scope?: string | undefined;
}

export interface Access {
  /** The token is shown this once. */
  create(request: AccessRequest): Promise<AccessToken & { readonly token: string }>;
  list(): Promise<readonly AccessToken[]>;
  /** By id; false if there is none. Copies of the server know it within `CACHE_MS`. */
  revoke(id: string): Promise<boolean>;
  /** Undefined for what is no token, and for one that was revoked. */
  verify(token: string): Promise<Caller | undefined>;
  /** The same for a caller that was verified before, by its `tokenId`. */
  recall(tokenId: string): Promise<Caller | undefined>;
  /** Whether there is a token that lets somebody in. */
  hasAny(): Promise<boolean>;
  /**
   * Whether callers have to show one: from the first that was ever made on, so that revoking the last does not open the
   * server again; and always where others than this machine can reach it.
   */
  isRequired(): Promise<boolean>;
}

/** Its records are nobody's keys: no guard of a user has this namespace. */
export const SERVER_NAMESPACE = "nevertwice:server";
const OPERATION = "access";
/** Kept from the first token on, and never forgotten. */
const REQUIRED = { operation: "access-required", key: "1" };
/** For ever, as the longest that a guard takes. */
const FOR_EVER_MS = 3_155_760_000_000;
export const CACHE_MS = 5_000;
const MOST_CACHED = 10_000;
const MAX_NAME_BYTES = 255;
const TOKEN = /^nt_([0-9a-z]{16})_([A-Za-z0-9_-]{43})$/;

type Kept = AccessToken & { readonly hash: string };

export function createAccess(options: {
  readonly store: Store;
  readonly namespace: string;
  /** A token that is in no store. */
  readonly fixed?: string | undefined;
  /** Whether others than this machine can reach the server; default false. */
  readonly isReachable?: boolean;
  readonly now?: () => number;
}): Access {
  const { store, namespace, isReachable = false, now = Date.now } = options;
  const fixed = options.fixed === undefined ? undefined : configured(options.fixed, namespace);
  const guard = createGuard({
    store,
    namespace: SERVER_NAMESPACE,
    retentionMs: FOR_EVER_MS,
    purgeEveryMs: 0,
  });
  const known = new Map<string, { readonly kept: Kept | undefined; readonly until: number }>();
  let required: { readonly is: boolean; readonly until: number } | undefined;

  async function find(id: string): Promise<Kept | undefined> {
    const cached = known.get(id);
    if (cached !== undefined && cached.until > now()) return cached.kept;
    // Counted from before the store was asked: a slow answer is not known for longer.
    const until = now() + CACHE_MS;
    const kept = keptIn(await guard.read({ operation: OPERATION, key: id }));
    if (known.size >= MOST_CACHED) known.clear();
    known.set(id, { kept, until });
    return kept;
  }

  async function list(): Promise<readonly AccessToken[]> {
    const tokens: AccessToken[] = [];
    let after: string | undefined;
    do {
      const page = await guard.list({ state: "completed", limit: 1_000, after });
      for (const record of page.records) {
        const kept = record.operation === OPERATION ? keptIn(record) : undefined;
        if (kept === undefined) continue;
        const { hash: _, ...token } = kept;
        tokens.push(token);
      }
      after = page.next;
    } while (after !== undefined);
    return tokens.sort((a, b) => a.createdAt.localeCompare(b.createdAt));
  }

  return {
    list,

    async create({ name, role, namespace: given = namespace, scope = name }) {
      if (!ROLES.includes(role))
        throw wrong(`role is ${JSON.stringify(role)}; it must be ${ROLES.join(", ")}.`);
      for (const [what, text] of Object.entries({ name, namespace: given, scope })) checkName(what, text);
      if (given === SERVER_NAMESPACE) throw wrong(`namespace ${given} is the server's own.`);
      const id = randomBytes(10).toString("hex").slice(0, 16);
      const secret = randomBytes(32).toString("base64url");
      const token: AccessToken = {
        id,
        name,
        role,
        namespace: given,
        scope,
        createdAt: new Date(now()).toISOString(),
      };
      await recordedValue(guard, REQUIRED, () => true);
      await recordedValue(guard, { operation: OPERATION, key: id }, () => ({
        ...token,
        hash: hashOf(secret),
      }));
      required = undefined;
      return { ...token, token: `nt_${id}_${secret}` };
    },

    async revoke(id) {
      known.delete(id);
      if ((await find(id)) === undefined) return false;
      known.delete(id);
      return guard.forget({ operation: OPERATION, key: id });
    },

    async verify(token) {
      if (fixed !== undefined && sameText(token, fixed.token)) return fixed.caller;
      const [, id, secret] = TOKEN.exec(token) ?? [];
      if (id === undefined || secret === undefined) return undefined;
      const kept = await find(id);
      return kept !== undefined && sameText(hashOf(secret), kept.hash) ? callerOf(kept) : undefined;
    },

    async recall(tokenId) {
      if (tokenId === fixed?.caller.tokenId) return fixed?.caller;
      const kept = await find(tokenId);
      return kept && callerOf(kept);
    },

    async hasAny() {
      return fixed !== undefined || (await list()).length > 0;
    },

    async isRequired() {
      if (fixed !== undefined || isReachable) return true;
      if (required === undefined || required.until <= now()) {
        const until = now() + CACHE_MS;
        required = { is: (await guard.read(REQUIRED))?.state === "completed", until };
      }
      return required.is;
    },
  };
}

/** The token of the configuration: it may do everything. Another token is another caller, so sessions end with it. */
function configured(token: string, namespace: string): { readonly token: string; readonly caller: Caller } {
  const tokenId = `configured-${hashOf(token).slice(0, 16)}`;
  const caller: Caller = {
    name: "configured",
    roles: ROLES,
    namespace,
    scope: "configured",
    tokenId,
    seesServer: true,
  };
  return { token, caller };
}

function callerOf({ id, name, role, namespace, scope }: Kept): Caller {
  return { name, roles: [role], namespace, scope, tokenId: id };
}

function keptIn(record: Awaited<ReturnType<Guard["read"]>>): Kept | undefined {
  return record?.outcome?.kind === "value" ? (record.outcome.value as Kept) : undefined;
}

/** A secret of 32 random bytes needs no slow hash. */
function hashOf(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}

/** Takes as long for one wrong character as for all. */
export function sameText(a: string, b: string): boolean {
  const [first, second] = [a, b].map((text) => createHash("sha256").update(text).digest()) as [
    Buffer,
    Buffer,
  ];
  return timingSafeEqual(first, second);
}

/** It is shown in logs, in lists and on terminals. */
function checkName(what: string, text: string): void {
  if (
    text.trim() !== "" &&
    text.isWellFormed() &&
    Buffer.byteLength(text) <= MAX_NAME_BYTES &&
    !/\p{Cc}/u.test(text)
  )
    return;
  throw wrong(`${what} must be text of 1 to ${MAX_NAME_BYTES} bytes, without control characters.`);
}

function wrong(message: string): NevertwiceError {
  return new NevertwiceError("request-invalid", message);
}
