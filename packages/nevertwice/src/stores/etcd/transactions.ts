/** etcd's transactions as the HTTP gateway writes them: 64-bit numbers as text, and bytes as base64. */
import { fromBase64, toBase64 } from "../../core/bytes.ts";

/** A key and its value as they were read. */
export interface KeyValue {
  readonly key: string;
  /** Undefined if only the keys were asked for, or if the value is not UTF-8. */
  readonly value: string | undefined;
  /** The revision of the last write; `"0"` stands for a key that does not exist. */
  readonly revision: string;
  /** The revision of the write that created the key. */
  readonly created: string;
}

export const ABSENT = "0";

export interface RangeOptions {
  /** The first key that is not in the range; without it the range is one key. */
  readonly to?: string;
  readonly limit?: number;
  readonly keysOnly?: boolean;
}

/** One operation of a transaction. */
export type Operation = Readonly<Record<string, object>>;

/** True if the last write of the key has this revision. */
export function revisionIs(key: string, revision: string): object {
  return { key: encode(key), target: "MOD", result: "EQUAL", mod_revision: revision };
}

export function put(key: string, value: string): Operation {
  return { request_put: { key: encode(key), value: encode(value) } };
}

export function remove(key: string): Operation {
  return { request_delete_range: { key: encode(key) } };
}

/** A read. It is linearizable: `serializable`, which a member without a leader would answer, is never set. */
export function get(from: string, options: RangeOptions = {}): Operation {
  return { request_range: range(from, options) };
}

export function range(from: string, { to, limit, keysOnly }: RangeOptions = {}): object {
  return {
    key: encode(from),
    ...(to !== undefined && { range_end: encode(to) }),
    ...(limit !== undefined && { limit: String(limit) }),
    ...(keysOnly === true && { keys_only: true }),
  };
}

/** Runs `onSuccess` if every comparison is true, `onFailure` if not. */
export interface Transaction {
  readonly compare?: readonly object[];
  readonly onSuccess: readonly Operation[];
  readonly onFailure?: readonly Operation[];
}

export function transaction({ compare = [], onSuccess, onFailure = [] }: Transaction): object {
  return { compare, success: onSuccess, failure: onFailure };
}

/** A transaction inside of another one. */
export function nested(inner: Transaction): Operation {
  return { request_txn: transaction(inner) };
}

export interface TransactionAnswer {
  readonly hasSucceeded: boolean;
  /** The revision of the store; if the transaction wrote, that of its writes. */
  readonly revision: string;
  /** What each read found, in the order of the operations. Other operations have an empty list. */
  readonly found: readonly (readonly KeyValue[])[];
  /** The answer to each nested transaction, in the order of the operations. For others, one that did not succeed. */
  readonly nested: readonly Pick<TransactionAnswer, "hasSucceeded" | "found">[];
}

interface RawAnswer {
  readonly header?: { readonly revision?: string };
  readonly succeeded?: boolean;
  readonly responses?: readonly {
    readonly response_range?: RawRange;
    readonly response_txn?: RawAnswer;
  }[];
}

interface RawRange {
  readonly kvs?: readonly RawKeyValue[];
  readonly more?: boolean;
}

export interface RawKeyValue {
  readonly key?: string;
  readonly value?: string;
  readonly mod_revision?: string;
  readonly create_revision?: string;
}

export function readAnswer(body: unknown): TransactionAnswer {
  const answer = body as RawAnswer;
  return {
    ...readOperations(answer),
    revision: answer.header?.revision ?? ABSENT,
    nested: (answer.responses ?? []).map(({ response_txn = {} }) => readOperations(response_txn)),
  };
}

function readOperations({
  succeeded = false,
  responses = [],
}: RawAnswer): Pick<TransactionAnswer, "hasSucceeded" | "found"> {
  const found = responses.map(({ response_range }) => (response_range?.kvs ?? []).map(toKeyValue));
  return { hasSucceeded: succeeded, found };
}

/** The answer to a read outside of a transaction. */
export function readRange(body: unknown): { readonly found: readonly KeyValue[]; readonly more: boolean } {
  const { kvs = [], more = false } = body as RawRange;
  return { found: kvs.map(toKeyValue), more };
}

export function toKeyValue({ key = "", value, mod_revision, create_revision }: RawKeyValue): KeyValue {
  return {
    key: decode(key) ?? "",
    // An empty value is left out of the answer, like one that was not asked for.
    value: value === undefined ? undefined : decode(value),
    revision: mod_revision ?? ABSENT,
    created: create_revision ?? ABSENT,
  };
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function encode(text: string): string {
  return toBase64(encoder.encode(text));
}

function decode(base64: string): string | undefined {
  try {
    return decoder.decode(fromBase64(base64));
  } catch {
    return undefined;
  }
}
