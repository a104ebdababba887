/**
 * Access tokens: who may call the server, with which role, in which namespace and scope. They are records in the store,
 * with a hash instead of the secret, so that all servers on one store accept the same tokens.
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { type Guard, NevertwiceError, type Store } from "nevertwice";
import { recordedValue } from "./recorded-value.ts";
import { createServerGuard, isReservedNamespace } from "./server-guard.ts";

export const ROLES = ["service", "operator", "auditor"] as const;
/**
 * What a caller may do: use keys (`service`), decide about records (`operator`), or only look (`auditor`).
 */
export type Role = (typeof ROLES)[number];

/** The caller of a request, as its access token describes it. */
export interface Caller {
  /** Shown in logs: the name of the token, or `local` for a caller without one. */
  readonly name: string;
  /** The roles of the caller. */
  readonly roles: readonly Role[];
  /** The namespace that the caller works in. */
  readonly namespace: string;
  /** The owner of the keys that this caller uses. */
  readonly scope: string;
  /** The public part of the token, which finds it again without its secret; undefined for a caller without a token. */
  readonly tokenId?: string;
  /** Whether it may see the figures of all namespaces. */
  readonly seesServer?: true;
}

/** The namespace whose figures the caller may see; undefined means all of them. */
export function visibleNamespace({ namespace, seesServer }: Caller): string | undefined {
  return seesServer === true ? undefined : namespace;
}

/** Whether the caller may see whole keys and outcomes. */
export function isOperator({ roles }: Caller): boolean {
  return roles.includes("operator");
}

/** The roles that may see figures. */
export const WATCHERS: readonly Role[] = ["operator", "auditor"];

/** An access token, without its secret. */
export interface AccessToken {
  /** Names the token in lists and logs. */
  readonly id: string;
  /** The name that it was created with. */
  readonly name: string;
  /** What its holder may do. */
  readonly role: Role;
  /** The namespace that its holder works in. */
  readonly namespace: string;
  /** The scope that its holder is bound to; empty for none. */
  readonly scope: string;
  /** When it was created, as an ISO 8601 time. */
  readonly createdAt: string;
}

export interface AccessRequest {
  /** A name for people. */
  readonly name: string;
  /** What its holder may do. */
  readonly role: Role;
  /**
   * The namespace that its holder works in.
   * @default the server's `namespace`
   */
  readonly namespace?: string | undefined;
  /** Default: the token's name. Tokens with the same scope share their keys. */
  readonly scope?: string | undefined;
}

/** The access tokens of a server. They are records in its store, so all servers on the store share them. */
export interface Access {
  /** The secret is returned only here; the store has its hash. */
  create(request: AccessRequest): Promise<
    AccessToken & {
      /** The secret. It cannot be read again. */
      readonly token: string;
    }
  >;
  /** All tokens, without their secrets. */
  list(): Promise<readonly AccessToken[]>;
  /** Returns false if no token has this id. Every server refuses the token within `CACHE_MS`. */
  revoke(id: string): Promise<boolean>;
  /** Undefined if the text is not a token, or the token is unknown or revoked. */
  verify(token: string): Promise<Caller | undefined>;
  /** Finds a caller that was verified before, by its `tokenId`. Undefined if the token was revoked since. */
  recall(tokenId: string): Promise<Caller | undefined>;
  /** Whether a token is configured, or was ever created. One read by id: the store may have any number of records. */
  hasAny(): Promise<boolean>;
  /**
   * Whether callers have to present a token. True as soon as a token was ever created, so that revoking the last token
   * does not open the server again; and always true if other machines can reach the server.
   */
  isRequired(): Promise<boolean>;
  /** Waits up to `drainMs` for writes that the store has not confirmed, then stops. */
  end(): Promise<void>;
}

const OPERATION = "access";
/** A record that is written with the first token and never removed. */
const REQUIRED = { operation: "access-required", key: "1" };
export const CACHE_MS = 5_000;
const MAX_CACHED = 10_000;
const MAX_NAME_BYTES = 255;
const TOKEN = /^nt_([0-9a-z]{16})_([A-Za-z0-9_-]{43})$/;

type StoredToken = AccessToken & { readonly hash: string };

/** Opens the access tokens in a store. */
export function createAccess(options: {
  /** The store of the server. */
  readonly store: Store;
  /** The namespace of the server. */
  readonly namespace: string;
  /** The token of the configuration, which is not in the store. */
  readonly fixed?: string | undefined;
  /** Whether other machines can reach the server; default false. */
  readonly isReachable?: boolean;
  /**
   * How long `close` waits for running work, in milliseconds.
   * @default 30_000 (30 s)
   */
  readonly drainMs?: number;
  /** A monotonic clock: if the wall clock were set back, a revoked token would be accepted until it had caught up. */
  readonly now?: () => number;
}): Access {
  const { store, namespace, isReachable = false, drainMs, now = () => performance.now() } = options;
  const fixed = options.fixed === undefined ? undefined : configuredToken(options.fixed, namespace);
  const guard = createServerGuard(store, drainMs);
  const known = new Map<string, { readonly kept: StoredToken | undefined; readonly until: number }>();
  let required: { readonly is: boolean; readonly until: number } | undefined;

  async function find(id: string): Promise<StoredToken | undefined> {
    const cached = known.get(id);
    if (cached !== undefined && cached.until > now()) return cached.kept;
    // The cache time starts before the read, so that a slow read does not extend it.
    const until = now() + CACHE_MS;
    const kept = readStoredToken(await guard.read({ operation: OPERATION, key: id }));
    if (known.size >= MAX_CACHED) known.clear();
    known.set(id, { kept, until });
    return kept;
  }

  async function wasCreated(): Promise<boolean> {
    return (await guard.read(REQUIRED))?.state === "completed";
  }

  async function list(): Promise<readonly AccessToken[]> {
    const tokens: AccessToken[] = [];
    let after: string | undefined;
    do {
      const page = await guard.list({ state: "completed", limit: 1_000, after });
      for (const record of page.records) {
        const kept = record.operation === OPERATION ? readStoredToken(record) : undefined;
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

    async end() {
      await guard.close();
    },

    async create({ name, role, namespace: given = namespace, scope = name }) {
      if (!ROLES.includes(role))
        throw invalidRequest(`role is ${JSON.stringify(role)}; it must be one of ${ROLES.join(", ")}.`);
      for (const [what, text] of Object.entries({ name, namespace: given, scope })) checkName(what, text);
      if (isReservedNamespace(given)) throw invalidRequest(`namespace ${given} is reserved for the server.`);
      const id = randomBytes(10).toString("hex").slice(0, 16);
      const secret = randomBytes(32).toString("base64url");
      const token: AccessToken = {
        id,
        name,
        role,
        namespace: given,
        scope,
        createdAt: new Date().toISOString(),
      };
      await recordedValue(guard, REQUIRED, () => true);
      await recordedValue(guard, { operation: OPERATION, key: id }, () => ({
        ...token,
        hash: hashSecret(secret),
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
      return kept !== undefined && sameText(hashSecret(secret), kept.hash) ? toCaller(kept) : undefined;
    },

    async recall(tokenId) {
      if (tokenId === fixed?.caller.tokenId) return fixed?.caller;
      const kept = await find(tokenId);
      return kept && toCaller(kept);
    },

    async hasAny() {
      return fixed !== undefined || (await wasCreated());
    },

    async isRequired() {
      if (fixed !== undefined || isReachable) return true;
      if (required === undefined || required.until <= now()) {
        const until = now() + CACHE_MS;
        required = { is: await wasCreated(), until };
      }
      return required.is;
    },
  };
}

/** The token of the configuration has all roles. Its id depends on its text, so a changed token ends its sessions. */
function configuredToken(
  token: string,
  namespace: string,
): { readonly token: string; readonly caller: Caller } {
  const tokenId = `configured-${hashSecret(token).slice(0, 16)}`;
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

function toCaller({ id, name, role, namespace, scope }: StoredToken): Caller {
  return { name, roles: [role], namespace, scope, tokenId: id };
}

function readStoredToken(record: Awaited<ReturnType<Guard["read"]>>): StoredToken | undefined {
  const value: unknown = record?.outcome?.kind === "value" ? record.outcome.value : undefined;
  return isStoredToken(value) ? value : undefined;
}

const TEXT_MEMBERS = ["id", "name", "namespace", "scope", "createdAt", "hash"] as const;

/** A record in the store may be damaged. A damaged one is not a token, and must not keep the others from being listed. */
function isStoredToken(value: unknown): value is StoredToken {
  const token = (value ?? {}) as Partial<Record<keyof StoredToken, unknown>>;
  return TEXT_MEMBERS.every((name) => typeof token[name] === "string") && ROLES.includes(token.role as Role);
}

/** A fast hash is enough: the secret is 32 random bytes, which no one can guess. */
function hashSecret(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}

/** Compares in constant time. */
export function sameText(a: string, b: string): boolean {
  const [first, second] = [a, b].map((text) => createHash("sha256").update(text).digest()) as [
    Buffer,
    Buffer,
  ];
  return timingSafeEqual(first, second);
}

/** The text is shown in logs, lists and terminals, so it must not contain control characters. */
function checkName(what: string, text: string): void {
  if (
    text.trim() !== "" &&
    text.isWellFormed() &&
    Buffer.byteLength(text) <= MAX_NAME_BYTES &&
    !/\p{Cc}/u.test(text)
  )
    return;
  throw invalidRequest(`${what} must be text of 1 to ${MAX_NAME_BYTES} bytes, without control characters.`);
}

function invalidRequest(message: string): NevertwiceError {
  return new NevertwiceError("request-invalid", message);
}
