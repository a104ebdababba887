/** The effect that must not happen twice: a line in a ledger. */
import { appendFile } from "node:fs/promises";

export async function book(entry: object): Promise<void> {
  await appendFile(process.env.LEDGER_FILE ?? "./ledger.jsonl", `${JSON.stringify(entry)}\n`);
}
