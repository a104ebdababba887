/**
 * Tests in workerd that no door shares anything between two requests: all of them are made at module level, and used by requests
 * that overlap. Needs the build.
 */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bundleForEdge } from "../../../../scripts/smoke/edge-bundle.js";
import { STRICT, type StartedWorker, startWorker } from "./workerd.ts";

const PROGRAM = fileURLToPath(new URL("worker/doors.ts", import.meta.url));
const DOORS = [
  ...["guard.run", "guard.wrap", "guard.exclusive", "guard.claim", "guard.mark", "protect", "saga", "events"],
  ...["events/cloudevents", "events/webhook", "claims", "client"],
];

describe.concurrent.each([
  { name: "without nodejs_compat", flags: [STRICT] },
  { name: "with nodejs_compat", flags: [STRICT, "nodejs_compat"] },
])("$name", ({ flags }) => {
  let worker: StartedWorker;
  beforeAll(async () => {
    const { code } = await bundleForEdge(PROGRAM, "workerd");
    worker = await startWorker(code, flags);
  });
  afterAll(async () => {
    await worker?.close();
    expect(worker?.log()).toBe("");
  });

  test("the Worker has these doors", async () => {
    expect(await worker.ask("/", {})).toEqual(DOORS);
  });

  test.each(DOORS)("%s runs overlapping duplicates once, while other keys run beside them", async (door) => {
    const order = (key: string, ms: number) =>
      worker.ask("/", { door, key: `${door} ${key}`, ms: String(ms) });
    const duplicates = Array.from({ length: 5 }, () => order("duplicate", 300));
    // The first to arrive is the first to end: what others share with it would end then.
    const others = Array.from({ length: 5 }, (_, index) => order(`other ${index}`, 80 * index));
    expect(await Promise.all(duplicates)).toEqual(Array.from({ length: 5 }, () => `${door} duplicate ran 1`));
    expect(await Promise.all(others)).toEqual(
      Array.from({ length: 5 }, (_, index) => `${door} other ${index} ran 1`),
    );
    expect(await order("duplicate", 300)).toBe(`${door} duplicate ran 1`);
  });
});
