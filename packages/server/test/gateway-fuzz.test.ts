/**
 * Tests the gateway with generated requests and responses: its process never ends, the service receives exactly the request
 * that the gateway checked, and every response goes to the client that sent the request.
 *
 * A failure prints the seed and the bytes. NEVERTWICE_FUZZ_SEED generates other cases and NEVERTWICE_FUZZ_CASES
 * more of them; with NEVERTWICE_FUZZ_KEEP_GOING a run collects all problems instead of stopping at the first.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { count, reportOn } from "../../nevertwice/test/scale/figures.ts";
import { IS_FULL } from "../../nevertwice/test/scale/sizes.ts";
import type { Problem } from "./gateway-fuzz/batch.ts";
import { type Behind, type FuzzStage, fuzzStageFor, startFuzzStage } from "./gateway-fuzz/fuzz-stage.ts";
import { type Recorder, startRecorder } from "./gateway-fuzz/recorder.ts";
import { answeringOf, REQUEST_REPLAYS, RESPONSE_REPLAYS } from "./gateway-fuzz/replays.ts";
import { replayRequest, runRequests } from "./gateway-fuzz/request-run.ts";
import { type Responder, startResponder } from "./gateway-fuzz/responder.ts";
import { replayResponse, runResponses } from "./gateway-fuzz/response-run.ts";

const CASES = Number(process.env.NEVERTWICE_FUZZ_CASES ?? (IS_FULL ? 100_000 : 800));
const SEED = Number(process.env.NEVERTWICE_FUZZ_SEED ?? 20_261_116);
const KEEPS_GOING = process.env.NEVERTWICE_FUZZ_KEEP_GOING !== undefined;
const TIMEOUT_MS = IS_FULL ? 3_600_000 : 600_000;
const BEHIND: readonly Behind[] = ["node:http", "nginx"];

/** Without this minimum, a gateway that refuses everything would pass. */
const LEAST_SERVED = 0.1;

function told(problems: readonly Problem[]): string {
  return problems.map(({ what, after, replay }) => `after ${after}: ${what}\n  ${replay}`).join("\n");
}

describe("generated", () => {
  const options = { timeout: TIMEOUT_MS };

  test.for(BEHIND)("requests reach %s as the gateway checked them", options, async (behind, context) => {
    const recorder = await startRecorder();
    context.onTestFinished(() => recorder.close());
    const stage = await fuzzStageFor(context, {
      behind,
      servicePort: recorder.port,
      keepsConnections: true,
    });
    const run = await runRequests({ stage, recorder, seed: SEED, requests: CASES }, KEEPS_GOING);
    expect(told(run.problems)).toBe("");
    expect(run.served / run.requests).toBeGreaterThan(LEAST_SERVED);
    reportOn(`In front of ${behind}`, {
      trial: "Generated requests",
      figures: `${count(run.requests)} requests over ${count(run.connections)} connections (seed ${SEED}): ${count(run.served)} were served, each once and unchanged, and all others were refused`,
    });
  });

  test.for(BEHIND)(
    "answers of %s reach the client that sent the request, and are complete",
    options,
    async (behind, context) => {
      const responder = await startResponder();
      context.onTestFinished(() => responder.close());
      const stage = await fuzzStageFor(context, {
        behind,
        servicePort: responder.port,
        keepsConnections: false,
      });
      const knowsInformation = behind !== "nginx";
      const run = await runResponses(
        { stage, responder, seed: SEED, responses: CASES, knowsInformation },
        KEEPS_GOING,
      );
      expect(told(run.problems)).toBe("");
      expect(run.passed / run.responses).toBeGreaterThan(LEAST_SERVED);
      reportOn(`In front of ${behind}`, {
        trial: "Generated answers",
        figures: `${count(run.responses)} answers (seed ${SEED}): ${count(run.passed)} were passed on unchanged, and none was cut off, was mixed up with another or ended the process`,
      });
    },
  );
});

describe("a request that once caused a bug", () => {
  let recorder: Recorder;
  let stage: FuzzStage;
  beforeAll(async () => {
    recorder = await startRecorder();
    stage = await startFuzzStage(recorder.port);
  });
  afterAll(() => {
    stage.stop();
    recorder.close();
  });

  for (const { name, bytes } of REQUEST_REPLAYS)
    test(name, async () => {
      if (stage.gateway().ended() !== undefined) await stage.restart();
      expect(await replayRequest({ stage, recorder }, bytes)).toEqual([]);
    });
});

describe("a response that once caused a bug", () => {
  let responder: Responder;
  let stage: FuzzStage;
  beforeAll(async () => {
    responder = await startResponder();
    stage = await startFuzzStage(responder.port);
  });
  afterAll(() => {
    stage.stop();
    responder.close();
  });

  for (const replay of RESPONSE_REPLAYS)
    test(replay.name, async () => {
      if (stage.gateway().ended() !== undefined) await stage.restart();
      expect(await replayResponse({ stage, responder }, answeringOf(replay))).toEqual([]);
    });
});
