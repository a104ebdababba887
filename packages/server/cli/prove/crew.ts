/** The processes of a run: it starts them, gives them their rounds, and kills and pauses them. It signals no other process. */
import { type ChildProcess, fork } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import type { SeededDraws } from "./random.ts";
import type { RoundOrder, WorkerMessage, WorkerOptions } from "./worker.ts";

export interface Crew {
  /** Starts a round in every process. */
  begin(order: RoundOrder): void;
  /** Resolves when every process has finished the round; rejects if one failed, or takes `withinMs` longer than the round. */
  rested(withinMs: number): Promise<void>;
  /** Kills a process with SIGKILL. Another one takes its place and continues the round. Resolves when it has. */
  kill(draws: SeededDraws): Promise<void>;
  /** Stops a process with SIGSTOP for this long. */
  pause(draws: SeededDraws, ms: number): Promise<void>;
  end(): Promise<void>;
}

export interface CrewOptions {
  readonly processes: number;
  /** The program of a process, as a path. */
  readonly program: string;
  readonly worker: Omit<WorkerOptions, "name" | "seed">;
  readonly seed: number;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** The store or a process of the run failed outside of the calls that are checked. */
class CrewFailed extends Error {
  override readonly name = "CrewFailed";
  readonly code: string | undefined;
  constructor(message: string, code?: string) {
    super(message);
    this.code = code;
  }
}

interface CrewMember {
  readonly child: ChildProcess;
  readonly ready: Promise<void>;
  /** The last round that it has finished. */
  rested: number;
  isMeantToEnd: boolean;
}

export async function startCrew(options: CrewOptions): Promise<Crew> {
  const members: CrewMember[] = [];
  const listeners = new Set<() => void>();
  let order: RoundOrder | undefined;
  let failure: CrewFailed | undefined;
  let names = 0;

  const changed = (): void => {
    for (const listen of [...listeners]) listen();
  };
  const fail = (message: string, code?: string): void => {
    failure ??= new CrewFailed(message, code);
    changed();
  };

  function start(): CrewMember {
    const name = `p${++names}`;
    const given: WorkerOptions = { ...options.worker, name, seed: options.seed * 1_009 + names };
    const child = fork(options.program, [name], {
      execArgv: [],
      // A warning of a driver is of no use to the reader of the report.
      stdio: ["ignore", "ignore", "ignore", "ipc"],
      env: { ...process.env, ...options.env },
    });
    let hasStarted = (): void => {};
    const ready = new Promise<void>((resolve) => {
      hasStarted = resolve;
    });
    const member: CrewMember = { child, ready, rested: -1, isMeantToEnd: false };
    child.on("message", (message: WorkerMessage) => {
      if (message.kind === "ready") hasStarted();
      else if (message.kind === "rested") member.rested = message.round;
      else {
        hasStarted();
        fail(message.message, message.code);
      }
      changed();
    });
    child.once("close", (code, signal) => {
      hasStarted();
      if (!member.isMeantToEnd) fail(`a process of the run ended with ${signal ?? `code ${code}`}`);
    });
    child.on("error", () => {});
    // Not in the arguments, which other users of the machine can read: the URL may have a password.
    child.send(given, () => {});
    return member;
  }

  const tell = ({ child }: CrewMember, what: RoundOrder): void => {
    if (child.connected) child.send(what, () => {});
  };

  async function endMember(member: CrewMember): Promise<void> {
    member.isMeantToEnd = true;
    const { child } = member;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("close", resolve));
    child.kill("SIGKILL");
    await ended;
  }

  const end = async (): Promise<void> => void (await Promise.all(members.map(endMember)));

  members.push(...Array.from({ length: options.processes }, start));
  await Promise.all(members.map(({ ready }) => ready));
  if (failure !== undefined) {
    await end();
    throw failure;
  }

  return {
    begin(next) {
      order = next;
      for (const member of members) tell(member, next);
    },
    rested(withinMs) {
      return new Promise((resolve, reject) => {
        const late = setTimeout(() => fail("a process of the run does not answer"), withinMs);
        const listen = (): void => {
          const isOver = members.every(({ rested }) => rested === order?.round);
          if (!isOver && failure === undefined) return;
          clearTimeout(late);
          listeners.delete(listen);
          if (failure === undefined) resolve();
          else reject(failure);
        };
        listeners.add(listen);
        listen();
      });
    },
    async kill(draws) {
      const index = draws.below(members.length);
      await endMember(members[index] as CrewMember);
      const member = start();
      members[index] = member;
      await member.ready;
      if (order !== undefined && failure === undefined) tell(member, order);
    },
    async pause(draws, ms) {
      const { child } = members[draws.below(members.length)] as CrewMember;
      child.kill("SIGSTOP");
      await sleep(ms);
      child.kill("SIGCONT");
    },
    end,
  };
}
