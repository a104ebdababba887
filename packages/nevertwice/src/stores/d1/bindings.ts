/** The parts of Cloudflare's D1 that the store uses, typed by shape: no package of Cloudflare is needed. */
import { NevertwiceError } from "../../core/errors.ts";
import { hasMethods } from "../binding-source.ts";

/** The part of the binding of a D1 database that is used here: `env.DB`. */
export interface D1Database extends D1Session {
  /** Absent in older runtimes, whose databases have no replicas. */
  withSession?(constraint: "first-primary"): D1Session;
}

export interface D1Session {
  prepare(sql: string): D1Statement;
  // biome-ignore lint/suspicious/noExplicitAny: Cloudflare's statements have more members than ours.
  batch(statements: any[]): Promise<readonly D1Result[]>;
}

export interface D1Statement {
  bind(...values: unknown[]): D1Statement;
}

export interface D1Result {
  readonly results?: readonly unknown[] | undefined;
  readonly meta: { readonly changes?: number };
}

export function isDatabase(value: unknown): value is D1Database {
  return hasMethods(value, "prepare", "batch");
}

export function notBound(): NevertwiceError {
  return new NevertwiceError(
    "options-invalid",
    "d1Store needs the binding of a D1 database, such as env.DB: list the database under d1_databases of the wrangler configuration.",
  );
}
