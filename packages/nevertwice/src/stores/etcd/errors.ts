/**
 * What the errors of etcd mean to the caller. etcd's HTTP gateway answers with a gRPC code and a text; a request that got no
 * answer has the error of `fetch`. Each error also says whether another member may answer the same request.
 */
import { type DriverErrorTable, translateDriverError } from "../driver-errors.ts";

/** An answer of etcd that is an error. */
export class EtcdError extends Error {
  override readonly name = "EtcdError";
  /** The gRPC code; undefined if the answer has none. */
  readonly code: number | undefined;
  readonly status: number;

  constructor(message: string, status: number, code?: number) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** The gRPC codes that matter here. */
const CODE = {
  deadlineExceeded: 4,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  internal: 13,
  unavailable: 14,
  dataLoss: 15,
  unauthenticated: 16,
} as const;

const UNREACHABLE = "etcd cannot be reached, has no leader, or does not keep up.";

const ERRORS: DriverErrorTable = {
  rules: [
    {
      text: /database space exceeded/,
      code: "store-full",
      says: "the database of etcd is full (its NOSPACE alarm is on): compact and defragment it, raise its quota, then disarm the alarm.",
    },
    {
      text: /request is too large/,
      code: "options-invalid",
      says: "the record is larger than etcd accepts (--max-request-bytes, by default 1.5 MiB).",
    },
    {
      codes: [CODE.permissionDenied],
      code: "store-unsafe",
      says: "the etcd user may not read and write the keys of the store: grant it readwrite on its prefix.",
    },
    {
      text: /authentication failed|user name is empty|invalid auth token|auth store is old/,
      code: "store-unsafe",
      says: "etcd refused the user or the password.",
    },
    {
      codes: [CODE.deadlineExceeded, CODE.resourceExhausted, CODE.internal, CODE.unavailable],
      code: "unavailable",
      says: UNREACHABLE,
    },
  ],
  codesOf: (error) => [(error as Partial<EtcdError> | null)?.code],
  otherwise(error) {
    if (!(error instanceof EtcdError) || error.status >= 500)
      return { code: "unavailable", says: UNREACHABLE };
    return { code: "store-unsafe", says: "etcd refused a request of the store." };
  },
};

/** Translates an error of a request to etcd. One without an answer is always `unavailable`. */
export function toStoreError(error: unknown): unknown {
  return translateDriverError(error, ERRORS);
}

/**
 * Whether another member may answer the request. That a request failed here does not mean that it had no effect: a leader
 * that was lost may have replicated it before.
 */
export function isWorthAnotherMember(error: unknown): boolean {
  if (!(error instanceof EtcdError)) return true;
  if (/database space exceeded/.test(error.message)) return false;
  const { deadlineExceeded, resourceExhausted, internal, unavailable } = CODE;
  const codes: readonly (number | undefined)[] = [deadlineExceeded, resourceExhausted, internal, unavailable];
  return codes.includes(error.code) || (error.code === undefined && error.status >= 500);
}

/** The token has expired, or the users and roles of the cluster have changed since. A new token may be accepted. */
export function isStaleToken(error: unknown): boolean {
  return error instanceof EtcdError && /invalid auth token|auth store is old/.test(error.message);
}

/** The history that a read or a watch asks for was compacted. */
export function isCompacted(error: unknown): boolean {
  return error instanceof EtcdError && /has been compacted/.test(error.message);
}
