/** The statement that writes a decision: every table at once, with one array for each column. */
import type { TableNames } from "./schema.ts";
import {
  WRITTEN_CHECKPOINT,
  WRITTEN_COMMITMENT,
  WRITTEN_EVENT,
  WRITTEN_KEY,
  WRITTEN_RESOURCE,
} from "./written-rows.ts";

const NAMESPACE = "($1::text)";
const TRANSACTION = "($2::text)";
const UNNEEDED = "($3::text)::text[]";
const FIRST_ARRAY = 4;

interface WrittenTable {
  readonly table: string;
  readonly columns: Readonly<Record<string, { readonly type: string }>>;
  /** The column that contains the id of the transaction. */
  readonly transaction?: string;
  /** The primary key, if the row may exist. In an append-only table an existing row is an error. */
  readonly key?: readonly string[];
}

/** Writes the rows of one table. Their arrays are the parameters from `first` on. */
function insert({ table, columns, transaction, key }: WrittenTable, first: number): string {
  const names = Object.keys(columns);
  const fixed = transaction === undefined ? ["namespace"] : ["namespace", transaction];
  const values = transaction === undefined ? [NAMESPACE] : [NAMESPACE, TRANSACTION];
  const arrays = names.map((name, index) => `($${first + index}::text)::${columns[name]?.type}[]`);
  const text = `INSERT INTO ${table} (${[...fixed, ...names].join(", ")})
    SELECT ${[...values, ...names].join(", ")} FROM unnest(${arrays.join(", ")}) AS given (${names.join(", ")})`;
  if (key === undefined) return text;
  const changed = [...fixed, ...names].filter((name) => !key.includes(name));
  return `${text} ON CONFLICT (${key.join(", ")}) DO UPDATE SET ${changed.map((name) => `${name} = excluded.${name}`).join(", ")}`;
}

/** Also deletes the placeholders of the resources `$3`. The parameters are those of `toWriteParameters`. */
export function writeText({ keys, resources, commitments, events, checkpoints }: TableNames): string {
  const written: Readonly<Record<string, WrittenTable>> = {
    keys: { table: keys, columns: WRITTEN_KEY, transaction: "written_by", key: ["namespace", "id"] },
    resources: { table: resources, columns: WRITTEN_RESOURCE, key: ["namespace", "name"] },
    commitments: { table: commitments, columns: WRITTEN_COMMITMENT, key: ["namespace", "id"] },
    events: { table: events, columns: WRITTEN_EVENT, transaction: "checkpoint" },
    checkpoint: { table: checkpoints, columns: WRITTEN_CHECKPOINT, transaction: "id" },
  };
  let first = FIRST_ARRAY;
  const inserts = Object.entries(written).map(([name, table]) => {
    const text = `written_${name} AS (${insert(table, first)})`;
    first += Object.keys(table.columns).length;
    return text;
  });
  return `WITH ${inserts.join(",\n  ")}
  DELETE FROM ${resources} WHERE namespace = ${NAMESPACE} AND name = ANY (${UNNEEDED}) AND capacity IS NULL`;
}
