/** What a store makes sure of before its first step: that this is a primary, with our tables, in a state to keep claims. */
import { hash } from "node:crypto";
import { NevertwiceError } from "../../core/errors.ts";
import type { Statement } from "../postgres-sql.ts";
import type { Asking, Row } from "./client.ts";
import { SCHEMA_VERSION } from "./migrations.ts";

export interface Ready {
  /** One statement, at READ COMMITTED. */
  readonly ask: Asking["ask"];
  /** Where records that were settled are told: one channel for the tables of one schema. */
  readonly channel: string;
}

/** An answer that takes longer is waited for no longer by those who come later: its connection may be dead. */
const STUCK_MS = 1_000;

/** Asks once, and again only after it failed. `needed` is the version that the tables must have. */
export function createReady(
  asking: Asking,
  check: Statement,
  needed: number = SCHEMA_VERSION,
): () => Ready | Promise<Ready> {
  let ready: Ready | undefined;
  let asked: Promise<Ready> | undefined;

  async function look(): Promise<Ready> {
    const [row] = await asking.ask(check, []);
    ready = judge(row ?? [], asking, needed);
    return ready;
  }

  return () => {
    if (ready !== undefined) return ready;
    if (asked !== undefined) return asked;
    const looking = look();
    const forget = () => {
      if (asked === looking) asked = undefined;
    };
    const stuck = setTimeout(forget, STUCK_MS);
    stuck.unref?.();
    looking.finally(() => clearTimeout(stuck)).catch(forget);
    asked = looking;
    return asked;
  };
}

function judge(row: Row, { ask, askReadCommitted }: Asking, needed: number): Ready {
  const [version, schema, isolation, isReplica, isReadOnly, encoding] = row;
  if (isReplica === "true") throw unsafe("it is a replica; connect to the primary");
  if (isReadOnly === "on")
    throw unsafe(
      "its transactions are read-only; connect to the primary, or set default_transaction_read_only off",
    );
  if (encoding !== "UTF8")
    throw unsafe(`the database's encoding is ${encoding}, which cannot keep every text; it must be UTF8`);
  const found = Number(version ?? 0);
  if (found < needed)
    throw unsafe(`its tables are of version ${found}, and this library needs ${needed}; run migrate()`);
  if (found > needed)
    throw unsafe(
      `its tables are of version ${found}, and this library knows only ${needed}; upgrade nevertwice`,
    );
  return {
    ask: isolation === "read committed" ? ask : askReadCommitted,
    channel: `nevertwice_${hash("sha256", schema ?? "", "hex").slice(0, 16)}`,
  };
}

function unsafe(what: string): NevertwiceError {
  return new NevertwiceError("store-unsafe", `Postgres: ${what}.`);
}
