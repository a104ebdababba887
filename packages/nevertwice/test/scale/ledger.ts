/** Starts the ledger of a trial, and reads the notes of its processes. */
import { readFile } from "node:fs/promises";
import type { TestContext } from "vitest";
import { type Message, startProcess } from "./processes.ts";
import type { Try } from "./workers/ledger.js";

export interface Ledger {
  readonly port: number;
  report(): Promise<readonly Try[]>;
}

export async function startLedger(context: TestContext): Promise<Ledger> {
  const process = startProcess(context, "ledger.js", {});
  const { port } = await process.next<Message & { kind: "ready"; port: number }>("ready");
  return {
    port,
    async report() {
      process.tell("report");
      return (await process.next<Message & { kind: "report"; tries: readonly Try[] }>("report")).tries;
    },
  };
}

/** The last line of a killed process may be incomplete. A process that was killed before its first note has no file. */
export async function notesIn<Note>(path: string): Promise<Note[]> {
  const lines = (await readFile(path, "utf8").catch(() => "")).split("\n");
  return lines.slice(0, -1).map((line) => JSON.parse(line) as Note);
}
