/** Runs every client against every fault at every door, all at once, and counts the effects in the ledger of the service. */
import { randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { startProxy } from "../../../nevertwice/test/services/proxy.ts";
import { type Client, tell } from "./client.ts";
import type { Fault, Trial } from "./faults/fault.ts";
import { type ClientStage, type DoorName, openStage } from "./stage.ts";

export interface MatrixCell {
  readonly door: DoorName;
  readonly fault: string;
  readonly client: string;
  readonly effects: number;
  /** `ok`, the status of a failure, or `no answer`. */
  readonly told: string;
  /** What is wrong with it; undefined if it keeps the promise of the page. */
  readonly wrong?: string | undefined;
}

export interface MatrixOptions {
  readonly doors: readonly DoorName[];
  readonly faults: readonly Fault[];
  readonly clientsAt: (door: DoorName) => readonly Client[];
}

const LOOK_EVERY_MS = 20;
/** The default of guards, and a second. */
const LEASE_MS = 31_000;

export async function runMatrix({ doors, faults, clientsAt }: MatrixOptions): Promise<readonly MatrixCell[]> {
  const cells = await Promise.all(
    doors.map(async (door) => {
      const here = faults.filter((fault) => fault.doors?.includes(door) ?? true);
      // A service that is killed serves one fault.
      const killing = here.filter(({ kills }) => kills).map((fault) => [fault]);
      const groups = [here.filter(({ kills }) => !kills), ...killing];
      return (await Promise.all(groups.map((group) => runOnStage(door, group, clientsAt(door))))).flat();
    }),
  );
  return cells.flat();
}

async function runOnStage(door: DoorName, faults: readonly Fault[], clients: readonly Client[]) {
  if (faults.length === 0) return [];
  const stage = await openStage(door);
  try {
    const ended = (await Promise.all(faults.map((fault) => runFault(stage, fault, clients)))).flat();
    // Effects are counted last: a caller may have given up while its work was running.
    return ended.map((count) => count());
  } finally {
    await stage.close();
  }
}

async function runFault(stage: ClientStage, fault: Fault, clients: readonly Client[]) {
  const able = clients.filter((client) => !(fault.isKeyless && client.makesKeys));
  const trials = await Promise.all(able.map((client) => openTrial(stage, fault, client)));
  const [counts] = await Promise.all([
    Promise.all(trials.map(({ finish }) => finish())),
    fault.meanwhile?.(trials, stage),
  ]);
  return counts;
}

/** A trial, and the function that runs it to its end and returns how to count its effects. */
async function openTrial({ door, port, ledger }: ClientStage, fault: Fault, client: Client) {
  const network = await startProxy(port);
  const url = `http://127.0.0.1:${network.port}${fault.isRequired ? "/required" : ""}`;
  const headers: Record<string, string> = fault.isKeyless ? {} : { "Idempotency-Key": randomUUID() };
  const own = `work.${fault.name}.${client.name.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-")}.1`;
  let calls = 0;
  const trial: Trial = {
    work: own,
    network,
    async call(work = own) {
      calls++;
      try {
        return await tell(client, { url, headers, work });
      } finally {
        calls--;
      }
    },
    async callAgain() {
      const told = await trial.call();
      if (told.isSuccess) return told;
      await setTimeout(LEASE_MS);
      return trial.call();
    },
    async comesTo(event) {
      while (calls > 0 && ledger.count(event, own) === 0) await setTimeout(LOOK_EVERY_MS);
    },
  };
  async function finish(): Promise<() => MatrixCell> {
    const told = await fault.run(trial);
    await network.stop();
    return () => {
      const ids = ledger.effects(own);
      return {
        door,
        fault: fault.name,
        client: client.name,
        effects: ids.length,
        told: told.isSuccess ? "ok" : `${told.status ?? "no answer"}`,
        wrong: findWrong(fault.ends(door), ids, told),
      };
    };
  }
  return { ...trial, finish };
}

function findWrong(
  ends: ReturnType<Fault["ends"]>,
  effects: readonly string[],
  { isSuccess, id }: Awaited<ReturnType<Trial["call"]>>,
): string | undefined {
  if (isSuccess && !effects.includes(String(id))) return `told success with ${id}, which was no effect`;
  if (ends !== "named" && effects.length > 1) return `${effects.length} effects`;
  if (ends === "one answer" && !isSuccess) return "not told of its effect";
  return undefined;
}
