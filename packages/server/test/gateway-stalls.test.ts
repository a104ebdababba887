/** Tests many stalled clients and services: all others are served, and the stalled ones use bounded memory and time. */
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import { count, ms, reportOn } from "../../nevertwice/test/scale/figures.ts";
import { IS_FULL } from "../../nevertwice/test/scale/sizes.ts";
import { type GatewayProcess, startGateway } from "./gateway-fuzz/gateway-process.ts";
import { type StallingService, startStallingService } from "./gateway-stalls/stalling-service.ts";
import { openStalled, STALLS, type Stalled } from "./gateway-stalls/stalls.ts";
import { startWorkingClients } from "./gateway-stalls/working-clients.ts";

const COUNT = IS_FULL ? 2_000 : 120;
const MOST_PER_ADDRESS = IS_FULL ? 256 : 40;
const BUFFERED_BYTES = 16 * 1_048_576;
/** In addition to the limit: bodies that passed through and that the runtime has not collected yet. */
const MOST_GROWTH_BYTES = 2 * BUFFERED_BYTES + 256 * 1_048_576;
/** Each stalled client has at most two connections, one on each side; working clients have a few. */
const MOST_DESCRIPTORS = 2 * MOST_PER_ADDRESS + 100;
/** Longer than any request without a stall, even on a busy machine. */
const LIMIT_MS = IS_FULL ? 4_000 : 10_000;
const ENDED_MS = 120_000;

let service: StallingService;
beforeAll(async () => {
  service = await startStallingService();
});
afterAll(() => service.close());

async function startLimited({ onTestFinished }: TestContext): Promise<GatewayProcess> {
  const gateway = await startGateway({
    upstreamPort: service.port,
    settings: {
      headTimeout: LIMIT_MS,
      bodyTimeout: LIMIT_MS,
      upstreamTimeout: LIMIT_MS,
      maxConnections: 2_000,
      maxConnectionsPerAddress: MOST_PER_ADDRESS,
      maxBufferedBytes: BUFFERED_BYTES,
    },
  });
  onTestFinished(() => gateway.stop());
  return gateway;
}

interface Held {
  readonly descriptors: number;
  readonly residentBytes: number;
}

function heldBy(gateway: GatewayProcess): Held {
  return { descriptors: gateway.descriptors(), residentBytes: gateway.residentBytes() };
}

const LOOK_EVERY_MS = 20;

/** The highest memory use of the process until `isOver` returns true. */
async function peakUntil(gateway: GatewayProcess, isOver: (held: Held) => boolean): Promise<Held> {
  let peak: Held = { descriptors: 0, residentBytes: 0 };
  const until = performance.now() + ENDED_MS;
  for (;;) {
    expect(gateway.ended()).toBeUndefined();
    const held = heldBy(gateway);
    peak = {
      descriptors: Math.max(peak.descriptors, held.descriptors),
      residentBytes: Math.max(peak.residentBytes, held.residentBytes),
    };
    if (isOver(held)) return peak;
    expect(performance.now(), `${held.descriptors} descriptors are still open`).toBeLessThan(until);
    await setTimeout(LOOK_EVERY_MS);
  }
}

// At full size they run one at a time, so that the figures of one do not depend on the others.
describe("stalled connections", { concurrent: !IS_FULL, timeout: 300_000 }, () => {
  for (const stall of STALLS)
    test(`${COUNT} ${stall.name} do not keep others from being served, and are ended`, async (context) => {
      const gateway = await startLimited(context);
      const alone = startWorkingClients(gateway.apiUrl, gateway.port);
      await setTimeout(500);
      const calm = await alone.stop();
      const before = heldBy(gateway);
      const working = startWorkingClients(gateway.apiUrl, gateway.port);
      const startedAt = performance.now();
      let stalled: Stalled | undefined;
      const peaking = peakUntil(gateway, ({ descriptors }) => {
        // Those of the working clients come and go.
        return stalled?.haveEnded() === true && descriptors <= before.descriptors + 20;
      });
      stalled = await openStalled(stall, COUNT, gateway.port);
      const peak = await peaking;
      const seconds = (performance.now() - startedAt) / 1_000;
      const { api, gateway: through } = await working.stop();
      stalled.end();

      expect(api.failures).toEqual([]);
      expect(through.failures).toEqual([]);
      expect(peak.descriptors - before.descriptors).toBeLessThan(MOST_DESCRIPTORS);
      expect(peak.residentBytes - before.residentBytes).toBeLessThan(MOST_GROWTH_BYTES);
      const mebibytes = Math.round((peak.residentBytes - before.residentBytes) / 1_048_576);
      reportOn(`${count(COUNT)} ${stall.name}`, {
        trial: "Stalled connections",
        figures: `all ended after ${seconds.toFixed(1)} s; at most ${peak.descriptors} descriptors (${before.descriptors} before) and ${mebibytes} MiB more memory; p99 of the API ${ms(api.p99Ms)} (${ms(calm.api.p99Ms)} before) and of the gateway ${ms(through.p99Ms)} (${ms(calm.gateway.p99Ms)} before) over ${count(api.requests)} and ${count(through.requests)} requests`,
      });
    });
});
