/** What the dashboard asks about keys, and what it decides about them. */
import { get, post } from "./server.ts";
import type { KeyRecord, Page, SeenEvent } from "./shapes.ts";

export interface KeyFilters {
  readonly state?: string;
  readonly search?: string;
  readonly scope?: string;
}

export async function listKeys(
  { state, search, scope }: KeyFilters,
  after?: string,
): Promise<Page<KeyRecord>> {
  const { records, next } = await get<{
    readonly records: readonly KeyRecord[];
    readonly next: string | null;
  }>("/v1/keys", { state, search, scope, after });
  // Pages come in the order of the store; within one, what is new is first.
  const rows = [...records].sort((a, b) => b.claimedAt - a.claimedAt);
  return { rows, next: next ?? undefined };
}

export interface KeyLife {
  readonly record: KeyRecord;
  readonly events: readonly SeenEvent[];
}

export function readKey(id: string): Promise<KeyLife> {
  return get<KeyLife>(`/v1/keys/${encodeURIComponent(id)}`);
}

export const DECISIONS = ["done", "failed", "not-done"] as const;
export type Decision = (typeof DECISIONS)[number];

export type Act =
  | {
      readonly verb: "resolve";
      readonly decision: Decision;
      readonly value?: unknown;
      readonly error?: unknown;
    }
  | { readonly verb: "release" }
  | { readonly verb: "forget" };

/** About the record as it was seen: the fence says so, and a stale decision is refused. */
export async function decide({ id, fence }: KeyRecord, { verb, ...more }: Act): Promise<void> {
  await post(`/v1/keys/${encodeURIComponent(id)}/${verb}`, { fence, ...more });
}
