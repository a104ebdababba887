/** Sends generated requests through a gateway, and judges all that its service and its clients get. */
import { exchange } from "./client.ts";
import type { FuzzStage } from "./fuzz-stage.ts";
import { type ReadRequest, readRequests, readResponses, valuesOf } from "./reading.ts";
import type { Recorder } from "./recorder.ts";
import { type Sending, sendingFor } from "./request-cases.ts";
import { answerProblems, createRequestJudge, type RequestJudge } from "./request-judge.ts";

export interface RunOptions {
  readonly stage: FuzzStage;
  readonly recorder: Recorder;
  readonly seed: number;
  /** The minimum number of requests. */
  readonly requests: number;
}

export interface RequestRun {
  readonly requests: number;
  readonly connections: number;
  /** How many were answered by the service; the gateway refused the others. */
  readonly served: number;
  readonly problems: readonly Problem[];
}

export interface Problem {
  readonly what: string;
  /** How many requests had been sent. */
  readonly after: number;
  readonly replay: string;
}

const BATCH = 400;
const AT_ONCE = 64;
const MOST_DESCRIPTORS = 1_200;

/** Stops after the first batch with a problem, unless it is to collect them all. */
export async function runRequests(options: RunOptions, collectsAll = false): Promise<RequestRun> {
  const { seed, requests, stage, recorder } = options;
  const judge = createRequestJudge();
  const problems: Problem[] = [];
  let sent = 0;
  let served = 0;
  let index = 0;
  while (sent < requests && (collectsAll || problems.length === 0)) {
    const batch = Array.from({ length: BATCH }, () => sendingFor(seed, index++));
    const result = await sendAll(batch, options, judge);
    sent += result.sent;
    served += result.served;
    const found = [...result.problems, ...(await aftermath(stage, recorder, judge))];
    problems.push(...found.map((what) => ({ what, after: sent, replay: replayOf(what, batch, seed) })));
    if (stage.gateway().ended() !== undefined) {
      await stage.restart();
      problems.push(...(await culprits(batch, options, sent)));
      await stage.restart();
    }
  }
  return { requests: sent, connections: index, served, problems };
}

async function sendAll(batch: readonly Sending[], options: RunOptions, judge: RequestJudge) {
  const problems: string[] = [];
  let sent = 0;
  let served = 0;
  let next = 0;
  const worker = async () => {
    for (let sending = batch[next++]; sending !== undefined; sending = batch[next++]) {
      const result = await sendOne(sending, options, judge);
      sent += sending.requests;
      served += result.served;
      problems.push(...result.problems);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return { sent, served, problems };
}

async function sendOne({ pieces }: Sending, { stage }: Pick<RunOptions, "stage">, judge: RequestJudge) {
  const bytes = pieces.join("");
  const asked = judge.expect(bytes);
  const methods = asked.map(({ method }) => method);
  // The gateway ends the connection after the last request, or after one that it cannot read; not within one.
  const { messages, malformed, offset } = readRequests(bytes);
  const isHalf = malformed === undefined && offset < bytes.length;
  const isOver = (said: string) => isHalf && finals(said, methods) >= messages.length;
  const answered = await exchange({ port: stage.gateway().port, pieces, isOver });
  const { answers, problems } = answerProblems(asked, answered.bytes, answered.isClosed);
  const served = answers.filter(({ headers }) => valuesOf(headers, "x-answer").length > 0).length;
  return {
    served,
    problems: problems.map((what) => (malformed === undefined ? what : `${what}; ${malformed}`)),
  };
}

function finals(bytes: string, methods: readonly string[]): number {
  return readResponses(bytes, methods, false).messages.filter(({ status }) => status >= 200).length;
}

/** What is wrong once a batch is over: with what came to the service, with the process, and for the next client. */
async function aftermath(
  stage: FuzzStage,
  recorder: Recorder,
  judge: RequestJudge,
): Promise<readonly string[]> {
  const gateway = stage.gateway();
  const canary = gateway.ended() ?? (await canaryProblem(gateway.port, judge));
  const { requests, problems } = recorder.take();
  const end = gateway.ended();
  const descriptors = end === undefined ? gateway.descriptors() : 0;
  return [
    ...problems,
    ...requests.flatMap((request: ReadRequest) => judge.problemsOf(request)),
    ...(canary === undefined ? [] : [canary]),
    ...(/uncaught|unhandled/i.test(gateway.errors()) ? [gateway.errors()] : []),
    ...(descriptors > MOST_DESCRIPTORS ? [`the gateway has ${descriptors} descriptors open`] : []),
  ];
}

let canaries = 0;

/** A correct client is served, at once or on a retry. */
async function canaryProblem(port: number, judge: RequestJudge): Promise<string | undefined> {
  let said = "";
  for (let left = 3; left > 0; left--) {
    const id = `canary.${++canaries}`;
    const bytes = `POST /payments?case=${id} HTTP/1.1\r\nHost: localhost\r\nX-Case: ${id}\r\nIdempotency-Key: "${id}"\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`;
    judge.expect(bytes);
    said = (await exchange({ port, pieces: [bytes], isOver: () => false })).bytes;
    const [answer] = readResponses(said, ["POST"], true).messages;
    if (answer?.status === 200 && answer.body === id) return undefined;
  }
  return `a client that does everything right was answered ${JSON.stringify(said.slice(0, 400))}`;
}

/** Which of a batch end the process by themselves. */
async function culprits(batch: readonly Sending[], options: RunOptions, after: number): Promise<Problem[]> {
  const { stage, recorder, seed } = options;
  const problems: Problem[] = [];
  for (const sending of batch) {
    await sendOne(sending, options, createRequestJudge());
    await canaryProblem(stage.gateway().port, createRequestJudge());
    const end = stage.gateway().ended();
    if (end === undefined) continue;
    problems.push({ what: end, after, replay: replayText(sending, seed) });
    await stage.restart();
  }
  recorder.take();
  return problems;
}

/** Sends this over one connection, and then what other clients send; answers what is wrong with any of it. */
export async function replayRequest(
  options: Omit<RunOptions, "seed" | "requests">,
  bytes: string,
): Promise<readonly string[]> {
  const judge = createRequestJudge();
  const sending = { index: 0, requests: 1, pieces: [bytes] };
  const { problems } = await sendOne(sending, options, judge);
  return [...problems, ...(await aftermath(options.stage, options.recorder, judge))];
}

function replayOf(what: string, batch: readonly Sending[], seed: number): string {
  const index = Number(/\bc(\d+)\.\d/.exec(what)?.[1]);
  const sending = batch.find((each) => each.index === index);
  return sending === undefined
    ? `seed ${seed}, one of ${batch[0]?.index} to ${batch.at(-1)?.index}`
    : replayText(sending, seed);
}

function replayText({ index, pieces }: Sending, seed: number): string {
  return `seed ${seed}, connection ${index}: ${JSON.stringify(pieces.join("").slice(0, 4_000))}`;
}
