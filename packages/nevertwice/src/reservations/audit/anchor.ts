/**
 * Anchors: the end of every chain, to be kept where the owner of the database cannot write. A later audit that gets an anchor
 * back proves that everything up to it is unchanged, even if rows, events, hashes and checkpoints were all rewritten.
 */
import { hash } from "node:crypto";
import { NevertwiceError } from "../../core/errors.ts";
import { type JournalEvent, resourceSubject } from "../journal.ts";
import type { ReservationStore } from "../store.ts";
import { type Judgement, openJudgement } from "./findings.ts";
import { type ScanOptions, scanPages } from "./page-scan.ts";

/** The length and the last hash of one chain. */
export interface AnchoredChain {
  /** The resource of the chain. */
  readonly resource: string;
  /** How many events the chain has. */
  readonly events: number;
  /** The hash of its last event. */
  readonly hash: string;
}

/** The ends of all chains at one moment. */
export interface Anchor {
  /** The namespace of the reservations. */
  readonly namespace: string;
  /** By the store's clock. */
  readonly takenAt: number;
  /** The chains, by resource. */
  readonly chains: readonly AnchoredChain[];
  /** SHA-256 over all of the above: short enough to print, to sign or to publish. */
  readonly digest: string;
}

/** Reads the rows of all resources. Rows that cannot be read are left out; the audit lists them. */
export async function takeAnchor(store: ReservationStore, scan: ScanOptions): Promise<Anchor> {
  const { namespace } = scan;
  const takenAt = await store.now();
  const chains: AnchoredChain[] = [];
  for await (const rows of scanPages(scan, (query) => store.resources(query)))
    for (const { name, events, lastHash } of rows) chains.push({ resource: name, events, hash: lastHash });
  return { namespace, takenAt, chains, digest: digestAnchor(namespace, takenAt, chains) };
}

function digestAnchor(namespace: string, takenAt: number, chains: readonly AnchoredChain[]): string {
  const ends = chains.map(({ resource, events, hash: last }) => [resource, events, last]);
  return hash("sha256", JSON.stringify(["nevertwice/anchor/1", namespace, takenAt, ends]), "hex");
}

/** Throws `options-invalid` if it is not an anchor of this namespace, or was changed. */
export function checkedAnchor(anchor: Anchor, namespace: string): Anchor {
  const { takenAt, chains, digest } = anchor ?? {};
  if (!Array.isArray(chains) || digest !== digestAnchor(anchor.namespace, takenAt, chains))
    throw wrong("anchor is not what anchor() returned: its digest does not match its content.");
  if (anchor.namespace !== namespace)
    throw wrong(`anchor is of the namespace ${anchor.namespace}, not of ${namespace}.`);
  return anchor;
}

export interface AnchorCheck {
  add(event: JournalEvent): void;
  /** Whether every anchored event was found. */
  judge(): Judgement;
}

/** Looks for the last event of each anchored chain. Its hash covers all events before it. */
export function createAnchorCheck(
  anchor: Anchor | undefined,
  isMine: (name: string) => boolean,
): AnchorCheck {
  const awaited = new Map<string, AnchoredChain>();
  for (const chain of anchor?.chains ?? []) if (isMine(chain.resource)) awaited.set(chain.resource, chain);
  const judgement = openJudgement();
  return {
    add({ resource, entry, hash: found }) {
      if (resource === undefined) return;
      const chain = awaited.get(resource);
      if (chain?.events !== entry || (chain.hash !== found && entry > 0)) return;
      awaited.delete(resource);
      judgement.pass("J6", 1);
    },
    judge() {
      for (const { resource, events } of awaited.values())
        judgement.check(
          "J6",
          resourceSubject(resource),
          events === 0,
          `its chain no longer contains the event that was entry ${events} when the anchor was taken`,
        );
      return judgement;
    },
  };
}

function wrong(message: string): NevertwiceError {
  return new NevertwiceError("options-invalid", message);
}
