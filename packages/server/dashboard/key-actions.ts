/** The requests of the dashboard about keys: list them, read one, and carry out an operator's decision. */
import type { KeyDetailsJson, KeyJson, KeyPageJson } from "../src/api/api-json.ts";
import type { LoadedPage } from "./paging.ts";
import { get, post } from "./server.ts";

export interface KeyFilters {
  readonly state?: string;
  readonly search?: string;
  readonly scope?: string;
}

export async function listKeys(filters: KeyFilters, after?: string): Promise<LoadedPage<KeyJson>> {
  const { records, next } = await get<KeyPageJson>("/v1/keys", { ...filters, after });
  // Pages come in the order of the store; within a page the newest key is first.
  const rows = [...records].sort((a, b) => b.claimedAt - a.claimedAt);
  return { rows, next: next ?? undefined };
}

export function readKey(id: string): Promise<KeyDetailsJson> {
  return get<KeyDetailsJson>(`/v1/keys/${encodeURIComponent(id)}`);
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
