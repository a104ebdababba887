/** The parts of Cloudflare's Durable Objects that the store uses, typed by shape: no package of Cloudflare is needed. */
import { NevertwiceError } from "../../core/errors.ts";
import { hasMethods } from "../binding-source.ts";

/** The part of the binding of a Durable Object class that is used here: `env.NEVERTWICE`, or its `jurisdiction(...)`. */
export interface DurableObjectNamespace {
  idFromName(name: string): DurableObjectId;
  // biome-ignore lint/suspicious/noExplicitAny: Cloudflare's types allow only known names of regions.
  get(id: any, options?: any): DurableObjectStub;
}

interface DurableObjectId {
  toString(): string;
}

export interface DurableObjectStub {
  fetch(
    url: string,
    init: { readonly method: string; readonly body: string },
  ): Promise<DurableObjectResponse>;
}

export interface DurableObjectResponse {
  readonly status: number;
  text(): Promise<string>;
  readonly body: { getReader(): BodyReader } | null;
}

interface BodyReader {
  read(): Promise<unknown>;
  cancel(): Promise<unknown>;
}

/** The first parameter of an object's constructor. */
export interface DurableObjectState {
  /** Where the object keeps its records. */
  readonly storage: DurableObjectStorage;
}

/** The part of the storage of an object that is used here. */
export interface DurableObjectStorage {
  readonly sql: SqlStorage;
  transactionSync<Result>(change: () => Result): Result;
  getAlarm(): Promise<number | null>;
  setAlarm(at: number): Promise<void>;
}

export interface SqlStorage {
  // biome-ignore lint/suspicious/noExplicitAny: Cloudflare's types name the values of SQLite in their own words.
  exec(query: string, ...bindings: any[]): SqlCursor;
  readonly databaseSize: number;
}

interface SqlCursor {
  raw(): Iterable<unknown[]>;
}

export function isNamespace(value: unknown): value is DurableObjectNamespace {
  return hasMethods(value, "idFromName", "get");
}

export function notBound(): NevertwiceError {
  return new NevertwiceError(
    "options-invalid",
    "durableObjectStore needs the binding of a Durable Object class, such as env.NEVERTWICE: list the class under durable_objects.bindings of the wrangler configuration.",
  );
}
