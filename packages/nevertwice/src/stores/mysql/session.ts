/** Whether a server may be used as its connections are set up, and how large an outcome they carry. */
import { NevertwiceError } from "../../core/errors.ts";
import { SESSION_SQL } from "../mysql-sql.ts";
import { type MysqlClient, type Row, rowsOf } from "./client.ts";
import { textOf } from "./row.ts";

/** In a packet with an outcome: the rest of the record, whose four parts have 1,024 bytes each, written as digits. */
const OTHER_BYTES = 32_768;
const LEAST_PACKET_BYTES = 262_144;

/** By name; what the server does not know is not there. */
export type Variables = Readonly<Record<string, string>>;

export function variablesOf(rows: readonly Row[]): Variables {
  return Object.fromEntries(rows.map((row) => [textOf(row, "Variable_name"), textOf(row, "Value")]));
}

/** Answers how many bytes an outcome may have. Fails with `store-unsafe`. */
export async function checkSession(client: MysqlClient): Promise<number> {
  const found = variablesOf(await rowsOf(client, SESSION_SQL));
  const refusal = refusalOf(found);
  if (refusal !== undefined) throw new NevertwiceError("store-unsafe", refusal);
  // An outcome is sent as two digits a byte.
  return Math.floor((Number(found.max_allowed_packet) - OTHER_BYTES) / 2);
}

function refusalOf(found: Variables): string | undefined {
  for (const name of ["read_only", "super_read_only", "innodb_read_only"]) {
    if (isOn(found[name]))
      return `the server says ${name} = ${found[name]}, as a replica does: hand in a pool of the primary.`;
  }
  if (!isOn(found.autocommit))
    return "the pool's connections have autocommit off: nothing that we write would ever be committed.";
  const isolation = found.transaction_isolation ?? found.tx_isolation;
  if (isolation === "READ-UNCOMMITTED")
    return "the pool's connections read what is not committed: an outcome could be handed out and then be gone.";
  const packet = Number(found.max_allowed_packet);
  if (packet < LEAST_PACKET_BYTES)
    return `max_allowed_packet is ${packet}; it must be ${LEAST_PACKET_BYTES} at least.`;
  return undefined;
}

export function isOn(value: string | undefined): boolean {
  return value !== undefined && /^(ON|1|YES)$/i.test(value);
}
