/** The requests of the dashboard about keys: list them, read one, and carry out an operator's decision. */
import type { DerivedKeysJson, KeyDetailsJson, KeyJson, KeyPageJson } from "../src/api/api-json.ts";
import type { LoadedPage } from "./paging.ts";
import { get, post } from "./server.ts";

export interface KeyFilters {
  readonly state?: string;
  readonly search?: string;
  readonly scope?: string;
  readonly operation?: string;
  /** Milliseconds since the epoch, as text. */
  readonly before?: string;
  readonly undecided?: "true";
}

export interface KeyPage extends LoadedPage<KeyJson> {
  readonly order: KeyPageJson["order"];
}

export async function listKeys(filters: KeyFilters, after?: string): Promise<KeyPage> {
  const { records, next, order } = await get<KeyPageJson>("/v1/keys", { ...filters, after });
  return { rows: records, next: next ?? undefined, order };
}

export function readKey(id: string): Promise<KeyDetailsJson> {
  return get<KeyDetailsJson>(`/v1/keys/${encodeURIComponent(id)}`);
}

/** The key that the work gave to another system for this effect. */
export async function deriveKey({ id }: KeyJson, name: string): Promise<string> {
  const path = `/v1/keys/${encodeURIComponent(id)}/derived-keys`;
  const { derivedKeys } = await post<DerivedKeysJson>(path, { names: [name] });
  return derivedKeys[name] as string;
}

export type OperatorDecision = "done" | "failed" | "not-done";

export type KeyAction =
  | {
      readonly verb: "resolve";
      readonly decision: OperatorDecision;
      readonly value?: unknown;
      readonly error?: unknown;
    }
  | { readonly verb: "release" }
  | { readonly verb: "forget" };

/** Sends the fence of the record as the operator saw it: the server refuses a decision about a newer record. */
export async function decide({ id, fence }: KeyJson, { verb, ...more }: KeyAction): Promise<void> {
  await post(`/v1/keys/${encodeURIComponent(id)}/${verb}`, { fence, ...more });
}
