/** What an audit reads: the store, the namespace, and how to page through it. */
import type { ReservationStore } from "../store.ts";
import type { Anchor } from "./anchor.ts";
import type { KeyWindows } from "./judge-key.ts";
import type { ScanOptions } from "./page-scan.ts";

export interface AuditContext extends ScanOptions {
  readonly store: ReservationStore;
  readonly windows: KeyWindows;
  readonly anchor?: Anchor | undefined;
}
