/** Tests the routes of pipelines, which src/api/pipelines.ts describes, and what they keep of events. */
import { definePipeline, type PipelineEvent } from "nevertwice/pipeline";
import { describe, expect, it } from "vitest";
import { createJourneys } from "../src/pipelines/journeys.ts";
import { createPipelineFigures } from "../src/pipelines/pipeline-figures.ts";
import { callerOf, startServer } from "./api-client.ts";
import { pushFates, SHOP, startShop } from "./pipeline-stage.ts";

const JOURNEYS = "/v1/pipelines/shop%20orders/journeys";

describe("the API of pipelines", { timeout: 30_000 }, () => {
  it("shows topology, figures and journeys, without keys, payloads and errors", async () => {
    const server = await startServer();
    await pushFates(await startShop(server));
    const call = await callerOf(server, "operator");
    const { body: listed } = await call("GET", "/v1/pipelines");
    expect(listed.networks).toMatchObject([
      {
        id: "shop orders",
        hiddenNodes: 0,
        exposed: { in: { orders: "price.in" }, out: { parcels: "ship.parcel" } },
      },
    ]);
    expect(listed.networks[0].nodes[2]).toMatchObject({
      ...{
        name: "charge",
        key: ["id"],
        keyScope: "shop orders|charge",
        retries: 2,
        timeoutMs: 300,
        concurrency: 4,
      },
    });
    const { body: live } = await call("GET", "/v1/live");
    const charge = live.pipelines[0].nodes.find(({ name }: { name: string }) => name === "charge");
    expect(charge.counts).toEqual({ completed: 2, failed: 2, retried: 1, duplicate: 1, dropped: 0 });
    expect(charge.ports).toEqual({ charged: 2 });
    const { body: refused } = await call("GET", `${JOURNEYS}?ending=later`);
    expect(refused.journeys).toMatchObject([
      { trace: "m-hang", reason: "timeout" },
      { trace: "m-refuse", reason: "card-refused", nodes: ["price", "size", "charge"] },
    ]);
    const { body: journey, text } = await call("GET", `${JOURNEYS}/${refused.journeys[1].number}`);
    expect(
      journey.steps.map(({ kind, node }: { kind: string; node?: string }) => `${node ?? "-"} ${kind}`),
    ).toEqual([
      ...["price entered", "price started", "price completed", "size started", "size completed"],
      ...["charge started", "charge failed", "- settled"],
    ]);
    expect(text).not.toContain("4242");
    expect(text).not.toContain("o-refuse");
    expect((await call("GET", `${JOURNEYS}?message=m-again`)).body.journeys).toMatchObject([
      { ending: "acknowledge" },
    ]);
    expect((await call("GET", `${JOURNEYS}/9999`)).status).toBe(404);
    expect((await call("GET", "/v1/pipelines/none/journeys")).status).toBe(404);
    expect((await call("GET", `${JOURNEYS}?ending=well`)).status).toBe(400);
  });

  it("shows an auditor as much of a message id as of a key", async () => {
    const server = await startServer();
    const pipeline = await startShop(server);
    await pipeline.push("orders", { id: "o-1" }, { id: "customer-4711" });
    const call = await callerOf(server, "auditor");
    const { body, text } = await call("GET", `${JOURNEYS}?message=customer-4711`);
    expect(body.journeys).toMatchObject([{ trace: "cust…" }]);
    const journey = await call("GET", `${JOURNEYS}/${body.journeys[0].number}`);
    expect(text + journey.text).not.toContain("4711");
  });

  it("shows a caller only the networks of its namespace", async () => {
    const server = await startServer();
    await startShop(server);
    const other = await callerOf(server, "operator", { namespace: "other" });
    expect((await other("GET", "/v1/pipelines")).body).toEqual({ networks: [] });
    expect((await other("GET", "/v1/live")).body.pipelines).toEqual([]);
    expect((await other("GET", JOURNEYS)).status).toBe(404);
  });

  it("runs a network once, at most 20 of them, and forgets one that is closed", async () => {
    const server = await startServer();
    const pipeline = await startShop(server);
    await expect(startShop(server)).rejects.toThrow(
      "options-invalid: the network shop orders is already running",
    );
    await pipeline.close();
    const again = await startShop(server);
    await again.close();
    const one = (index: number) =>
      definePipeline({
        network: { id: `n-${index}`, version: "1.0.0" },
        nodes: {
          end: {
            use: {
              node: { id: "end", version: "1.0.0", kind: "sink" },
              ports: { in: { in: {} } },
              contract: { pure_core: (x: unknown) => x, effect_shell: () => undefined },
            },
          },
        },
        expose: { in: { in: "end.in" } },
      });
    for (let index = 0; index < 20; index++) await server.startPipeline(one(index));
    await expect(server.startPipeline(one(20))).rejects.toThrow("a server runs at most 20 networks");
  });
});

const place = (trace: string, id = trace) => ({ network: "shop", node: "a", id, parents: [], trace });
const entered = (trace: string): PipelineEvent => ({ ...place(trace), kind: "entered", port: "in" });
const settled = (trace: string, verdict: "acknowledge" | "later" | "reject"): PipelineEvent => {
  const { node: _, ...rest } = place(trace);
  return { ...rest, kind: "settled", verdict };
};

describe("journeys", () => {
  it("keep failed ones apart, so that good ones do not push them out", () => {
    const journeys = createJourneys(() => 1);
    journeys.observe(entered("bad"));
    journeys.observe(settled("bad", "reject"));
    for (let index = 0; index < 1_000; index++) {
      journeys.observe(entered(`m-${index}`));
      journeys.observe(settled(`m-${index}`, "acknowledge"));
    }
    expect(journeys.list({ ending: "reject", limit: 10 })).toMatchObject([{ trace: "bad" }]);
    expect(journeys.list({ limit: 1_000 })).toHaveLength(201);
  });

  it("follow at most 500 at once, and count the others", () => {
    const journeys = createJourneys(() => 1);
    for (let index = 0; index < 600; index++) journeys.observe(entered(`m-${index}`));
    expect(journeys.list({ limit: 1_000 })).toHaveLength(500);
    expect(journeys.notFollowed()).toBe(100);
  });

  it("end when all messages of a trace have ended, with the worst verdict", () => {
    const journeys = createJourneys(() => 1);
    for (const event of [entered("t"), entered("t"), settled("t", "later")]) journeys.observe(event);
    expect(journeys.list({ limit: 1 })).toMatchObject([{ ending: "later", steps: { length: 3 } }]);
    journeys.observe(settled("t", "acknowledge"));
    journeys.observe(entered("t"));
    expect(journeys.list({ limit: 9 }).map(({ ending }) => ending)).toEqual(["running", "later"]);
  });

  it("keep 100 steps, and texts of 200 characters", () => {
    const journeys = createJourneys(() => 1);
    const long = "x".repeat(5_000);
    journeys.observe(entered(long));
    for (let index = 0; index < 150; index++) journeys.observe({ ...place(long), kind: "started" });
    const [journey] = journeys.list({ limit: 1 });
    expect(journey).toMatchObject({ leftOut: 51, steps: { length: 100 } });
    expect(journey?.trace).toHaveLength(201);
  });
});

describe("figures", () => {
  it("count the last minute, and take percentiles from it", () => {
    let now = 1_000_000_000_000;
    const figures = createPipelineFigures(SHOP.model, () => now);
    const done = (ranMs: number): PipelineEvent => ({
      ...{ ...place("m"), node: "charge" },
      ...{ kind: "completed", attempt: 0, ranMs, emits: 1, ports: ["charged"] },
    });
    for (let ms = 1; ms <= 100; ms++) figures.observe(done(ms));
    expect(figures.minute("charge")).toMatchObject({
      ...{
        counts: { completed: 100, failed: 0 },
        ports: { charged: 100 },
        ranMs: { count: 100, p50: 51, p95: 96 },
      },
      perSecond: 0,
    });
    now += 1_000;
    expect(figures.minute("charge").perSecond).toBe(10);
    now += 58_000;
    expect(figures.minute("charge").counts.completed).toBe(100);
    now += 1_000;
    expect(figures.minute("charge")).toMatchObject({ counts: { completed: 0 }, ranMs: { count: 0, p50: 0 } });
  });

  it("ignore nodes that the network does not have", () => {
    const figures = createPipelineFigures(SHOP.model, () => 0);
    expect(() => figures.observe({ ...place("m"), node: "other", kind: "started" })).not.toThrow();
  });
});
