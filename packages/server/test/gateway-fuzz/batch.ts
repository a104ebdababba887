/** Sends generated cases in batches, and checks after each batch that the gateway still serves a correct client. */
import { exchange } from "./client.ts";
import type { FuzzStage } from "./fuzz-stage.ts";
import type { GatewayProcess } from "./gateway-process.ts";
import { readResponses } from "./reading.ts";

export interface Problem {
  readonly what: string;
  /** How many cases had been sent. */
  readonly after: number;
  /** The seed and the bytes that show the problem again. */
  readonly replay: string;
}

export const BATCH = 400;
const AT_ONCE = 64;

/** Calls `send` for each case, for up to `AT_ONCE` cases at a time. */
export async function sendEach<Case>(
  batch: readonly Case[],
  send: (one: Case) => Promise<void>,
): Promise<void> {
  let next = 0;
  const worker = async () => {
    for (let one = batch[next++]; one !== undefined; one = batch[next++]) await send(one);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

const TRIES = 3;
let canaries = 0;

/** What is wrong if a correct client is not served, not even on a retry. `willSend` is told the bytes of each try. */
export async function canaryProblem(
  gateway: GatewayProcess,
  willSend: (bytes: string) => unknown = () => {},
): Promise<string | undefined> {
  let said = "";
  for (let left = TRIES; left > 0 && gateway.ended() === undefined; left--) {
    const id = `canary.${++canaries}`;
    const bytes = `POST /payments?case=${id} HTTP/1.1\r\nHost: localhost\r\nX-Case: ${id}\r\nIdempotency-Key: "${id}"\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`;
    willSend(bytes);
    said = (await exchange({ port: gateway.port, pieces: [bytes], isOver: () => false })).bytes;
    const [answer] = readResponses(said, ["POST"], true).messages;
    if (answer?.status === 200 && answer.body === id) return undefined;
  }
  return gateway.ended() ?? `a correct client was answered ${JSON.stringify(said.slice(0, 400))}`;
}

export interface Culprits<Case> {
  readonly batch: readonly Case[];
  readonly stage: FuzzStage;
  readonly after: number;
  readonly send: (one: Case) => Promise<unknown>;
  readonly replay: (one: Case) => string;
}

/** Sends the cases of a batch one by one, and reports each that ends the process of the gateway. */
export async function findCulprits<Case>(culprits: Culprits<Case>): Promise<readonly Problem[]> {
  const { batch, stage, after, send, replay } = culprits;
  const problems: Problem[] = [];
  for (const one of batch) {
    await send(one);
    await canaryProblem(stage.gateway());
    const what = stage.gateway().ended();
    if (what === undefined) continue;
    problems.push({ what, after, replay: replay(one) });
    await stage.restart();
  }
  return problems;
}
