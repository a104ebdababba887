/**
 * Checks a trial of deliveries. It compares the ledger, the list of killed processes, and what the guards of the consumers
 * reported before each try. A message may be tried again only if the process that tried it before was killed, and its claim
 * was taken over.
 */
import type { Try } from "./workers/ledger.js";

export interface Storm {
  /** The messages, each once, even if it was sent several times. */
  readonly messages: readonly string[];
  /** In the order of the ledger. */
  readonly tries: readonly Try[];
  readonly takeovers: readonly Takeover[];
  readonly kills: readonly Kill[];
  readonly onLapsed: "takeover" | "hold";
}

/** A `taken-over` event, noted before the work began. */
export interface Takeover {
  readonly message: string;
  readonly fence: number;
}

export interface Kill {
  readonly pid: number;
  /** When the signal was sent, in microseconds of the monotonic clock. */
  readonly at: number;
}

export interface Judgement {
  readonly problems: readonly string[];
  readonly effects: number;
  /** Tries of messages that had been tried before. */
  readonly secondTries: number;
}

export function judgeDeliveries(storm: Storm): Judgement {
  const byMessage = new Map<string, Try[]>(storm.messages.map((message) => [message, []]));
  const problems: string[] = [];
  for (const tried of storm.tries) {
    const tries = byMessage.get(tried.message);
    if (tries === undefined) problems.push(`${tried.message} was done, but was never sent`);
    else tries.push(tried);
  }
  const killedAt = new Map(storm.kills.map(({ pid, at }) => [pid, at]));
  const takenOver = new Set(storm.takeovers.map(({ message, fence }) => `${fence} ${message}`));
  for (const [message, tries] of byMessage) {
    const effects = new Set(tries.map(({ key }) => key)).size;
    if (effects !== 1)
      problems.push(effects === 0 ? `${message} is lost` : `${message} was done ${effects} times`);
    for (const [index, tried] of tries.slice(1).entries()) {
      const before = tries[index] as Try;
      const again = `${message} was tried again by ${tried.pid}`;
      if (storm.onLapsed === "hold") problems.push(`${again}, although it is held`);
      if (!((killedAt.get(before.pid) ?? Number.POSITIVE_INFINITY) < tried.at))
        problems.push(`${again}, although ${before.pid}, which tried it before, was alive`);
      if (!takenOver.has(`${tried.fence} ${message}`))
        problems.push(`${again}, and no process reported a takeover`);
      if (!(tried.fence > before.fence && tried.number > before.number))
        problems.push(`${again} under a claim that is not a later one`);
    }
  }
  return {
    problems,
    effects: storm.tries.filter(({ isNew }) => isNew).length,
    secondTries: storm.tries.length - [...byMessage.values()].filter(({ length }) => length > 0).length,
  };
}
