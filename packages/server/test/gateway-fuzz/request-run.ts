/** Sends generated requests through a gateway, and checks what the service and the clients receive. */
import { BATCH, canaryProblem, findCulprits, type Problem, sendEach } from "./batch.ts";
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

const MOST_DESCRIPTORS = 1_200;

/** Stops after the first batch with a problem, unless `collectsAll` is true. */
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
      const send = (one: Sending) => sendOne(one, options, createRequestJudge());
      const replay = (one: Sending) => replayText(one, seed);
      problems.push(...(await findCulprits({ batch, stage, after: sent, send, replay })));
      recorder.take();
      await stage.restart();
    }
  }
  return { requests: sent, connections: index, served, problems };
}

async function sendAll(batch: readonly Sending[], options: RunOptions, judge: RequestJudge) {
  const problems: string[] = [];
  let sent = 0;
  let served = 0;
  await sendEach(batch, async (sending) => {
    const result = await sendOne(sending, options, judge);
    sent += sending.requests;
    served += result.served;
    problems.push(...result.problems);
  });
  return { sent, served, problems };
}

async function sendOne({ pieces }: Sending, { stage }: Pick<RunOptions, "stage">, judge: RequestJudge) {
  const bytes = pieces.join("");
  const asked = judge.expect(bytes);
  const methods = asked.map(({ method }) => method);
  // The gateway closes the connection after the last request, or after one that it cannot read. If the bytes end within
  // a request, the client leaves once all requests before that are answered.
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

/** The problems after a batch: in the requests that the service received, in the process, and for the next client. */
async function aftermath(
  stage: FuzzStage,
  recorder: Recorder,
  judge: RequestJudge,
): Promise<readonly string[]> {
  const gateway = stage.gateway();
  const canary = await canaryProblem(gateway, judge.expect);
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

/** Sends these bytes over one connection, then a correct request, and returns the problems of both. */
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
