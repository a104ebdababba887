/** Tests the outbox over HTTP, on SQLite, Postgres and MariaDB, and its figures in metrics. */
import { randomUUID } from "node:crypto";
import { metrics as otelMetrics } from "@opentelemetry/api";
import type { OutboxFigures } from "nevertwice/outbox";
import { afterEach, describe, expect, onTestFinished, type TestContext, test } from "vitest";
import { startProxy } from "../../nevertwice/test/services/proxy.ts";
import { sharedUrl } from "../../nevertwice/test/services/services.ts";
import { newDatabase } from "../../nevertwice/test/stores/mysql/pools.ts";
import { createDatabase, query, withUser } from "../../nevertwice/test/stores/postgres/database.ts";
import { createMetricsSdk } from "../../nevertwice/test/telemetry/sdk.ts";
import { createLatelyRead } from "../src/lately-read.ts";
import { createServer, type NevertwiceServer } from "../src/server.ts";
import { callerOf, callWith, startServer } from "./api-client.ts";
import {
  type Application,
  mysqlApplication,
  postgresApplication,
  relayUntil,
  sqliteApplication,
} from "./outbox-stage.ts";

const APPLICATIONS: Readonly<Record<string, (context: TestContext) => Promise<Application>>> = {
  sqlite: () => sqliteApplication(),
  postgres: async (context) => postgresApplication(await createDatabase(sharedUrl(context, "postgres"))),
  mysql: async (context) => mysqlApplication(await newDatabase(context)),
};

interface Row {
  readonly id: string;
  readonly state: string;
}

/** The text of /metrics for a new operator of this namespace, or for a caller without a token. */
async function metricsOf(server: NevertwiceServer, namespace?: string): Promise<string> {
  const made =
    namespace && (await server.context.access.create({ name: "watcher", role: "operator", namespace }));
  const { statusCode, payload } = await server.app.inject({
    method: "GET",
    url: "/metrics",
    ...(made && { headers: { authorization: `Bearer ${made.token}` } }),
  });
  expect(statusCode).toBe(200);
  return payload;
}

async function started(open: (typeof APPLICATIONS)[string], context: TestContext) {
  const application = await open(context);
  onTestFinished(() => application.close());
  const server = await startServer({ store: application.url });
  return { application, server, operator: await callerOf(server, "operator") };
}

/** One message in each state, and one whose next attempt is planned: ids by state. */
async function oneOfEach(application: Application) {
  const [parked = "", behind = "", planned = "", delivering = ""] = await application.send(
    { topic: "refuse", key: "customer-1", body: { secret: "4111" }, scope: "shop" },
    { topic: "receipt", key: "customer-1", body: 2 },
    { topic: "later", key: "customer-2", body: 3 },
    { topic: "hang", body: 4 },
  );
  const relay = await relayUntil(application, async () => {
    const { messages } = await application.outbox.list();
    return messages.map(({ state }) => state).join() === "parked,behind,waiting,delivering";
  });
  onTestFinished(() => relay.stop());
  return { parked, behind, planned, delivering };
}

describe.each(Object.entries(APPLICATIONS))("the outbox over HTTP on %s", (_, open) => {
  test("is listed with state, attempts and error, and never with a body", async (context) => {
    const { application, operator } = await started(open, context);
    const ids = await oneOfEach(application);
    const { body, text } = await operator("GET", "/v1/outbox");
    expect(body).toEqual({
      next: null,
      messages: [
        {
          id: ids.parked,
          topic: "refuse",
          key: "customer-1",
          scope: "shop",
          state: "parked",
          createdAt: expect.any(Number),
          attempts: 1,
          dueAt: null,
          parkedAt: expect.any(Number),
          lastError: "Error: the receiver answered 422: unknown customer",
        },
        expect.objectContaining({ id: ids.behind, state: "behind", attempts: 0, scope: null, dueAt: null }),
        expect.objectContaining({ id: ids.planned, state: "waiting", dueAt: expect.any(Number) }),
        expect.objectContaining({ id: ids.delivering, state: "delivering", key: null, lastError: null }),
      ],
    });
    expect(text).not.toContain("4111");
    const found = async (asked: string) =>
      (await operator("GET", `/v1/outbox?${asked}`)).body.messages.map(({ id }: Row) => id);
    expect(await found("state=parked")).toEqual([ids.parked]);
    expect(await found("topic=later")).toEqual([ids.planned]);
    expect(await found("key=customer-1")).toEqual([ids.parked, ids.behind]);
    const first = (await operator("GET", "/v1/outbox?limit=3")).body;
    expect(first.messages).toHaveLength(3);
    expect(await found(`limit=3&after=${first.next}`)).toEqual([ids.delivering]);
  });

  test("has figures", async (context) => {
    const { application, operator } = await started(open, context);
    await oneOfEach(application);
    expect((await operator("GET", "/v1/outbox/figures")).body).toEqual({
      undelivered: 4,
      waiting: 1,
      due: 0,
      delivering: 1,
      behind: 1,
      parked: 1,
      oldestMs: expect.any(Number),
      topics: expect.arrayContaining([{ topic: "refuse", messages: 1 }]),
      countedUpTo: 10_000,
    });
  });

  test("retries, parks and discards messages, but none that is being delivered", async (context) => {
    const { application, operator } = await started(open, context);
    const ids = await oneOfEach(application);
    const act = async (id: string, verb: string) => {
      const { status, body } = await operator("POST", `/v1/outbox/${id}/${verb}`);
      return status === 200 ? body : [status, body.code];
    };
    const refused = [409, "concurrent-modification"];
    for (const verb of ["retry", "park", "discard"]) {
      expect(await act(ids.delivering, verb), verb).toEqual(refused);
      expect(await act(randomUUID(), verb), verb).toEqual(refused);
    }
    expect(await act(ids.planned, "park")).toEqual({ id: ids.planned });
    expect(await act(ids.planned, "park")).toEqual(refused);
    expect(await act(ids.planned, "retry")).toEqual({ id: ids.planned });
    // The relay tries again, and parks it again.
    expect(await act(ids.parked, "retry")).toEqual({ id: ids.parked });
    await expect.poll(() => act(ids.parked, "discard")).toEqual({ id: ids.parked });
    // The next message of its key follows.
    const states = async () => (await application.outbox.list()).messages.map(({ id, state }) => [id, state]);
    await expect.poll(states).toContainEqual([ids.behind, "delivering"]);
  });

  test("shows an auditor the first characters of keys, and no errors, which can quote the receiver", async (context) => {
    const { application, server } = await started(open, context);
    await oneOfEach(application);
    const auditor = await callerOf(server, "auditor");
    const { body, text } = await auditor("GET", "/v1/outbox");
    expect(body.messages.map(({ key }: { key: unknown }) => key)).toEqual(["cust…", "cust…", "cust…", null]);
    expect(text).not.toMatch(/customer|answered|ECONN/);
    expect((await auditor("GET", "/v1/outbox?key=customer-1")).body.code).toBe("not-authorized");
  });

  test("is separate for each namespace", async (context) => {
    const { application, server } = await started(open, context);
    const [id] = await application.send({ topic: "a", body: 1 });
    const other = await callerOf(server, "operator", { namespace: "other" });
    expect((await other("GET", "/v1/outbox")).body).toEqual({ messages: [], next: null });
    expect((await other("POST", `/v1/outbox/${id}/discard`)).status).toBe(409);
    expect((await other("GET", "/v1/outbox/figures")).body).toMatchObject({ undelivered: 0, oldestMs: null });
    expect((await application.outbox.list()).messages).toHaveLength(1);
  });
});

const BAD_QUERIES = [
  "state=lost",
  "limit=0",
  "limit=1001",
  "after=-1",
  "after=9999999999999999999",
  "key=",
  "key=%00",
  "topic=%00",
  "scope=a",
];

test("a list with a wrong query is refused", async () => {
  const call = callWith(await startServer());
  for (const asked of BAD_QUERIES)
    expect((await call("GET", `/v1/outbox?${asked}`)).body.code, asked).toBe("request-invalid");
});

test("a server whose store cannot have an outbox says so, unless it gets a second store", async () => {
  const server = await startServer();
  const { status, body } = await callWith(server)("GET", "/v1/outbox");
  expect([status, body.code, body.detail]).toEqual([
    501,
    "not-supported",
    expect.stringContaining("--outbox-store"),
  ]);
  expect(await metricsOf(server)).not.toContain("outbox_messages");
  const application = await sqliteApplication();
  onTestFinished(() => application.close());
  const call = callWith(await startServer({ outboxStore: application.url }));
  expect((await call("GET", "/v1/outbox")).status).toBe(200);
  await expect(startServer({ outboxStore: "memory:" })).rejects.toThrow("cannot hold an outbox");
});

test("a server starts without an outbox where it may not create the table", async (context) => {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  // Creates the tables for claims and holds as the owner.
  await (await createServer({ store: url, logLevel: "silent" })).close();
  const role = `restricted_${randomUUID().slice(0, 8)}`;
  await query(
    url,
    `DROP TABLE nevertwice_outbox, nevertwice_outbox_migrations; CREATE ROLE ${role} LOGIN PASSWORD 'p';
     REVOKE CREATE ON SCHEMA public FROM PUBLIC; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ${role}`,
  );
  const store = withUser(url, role, "p");
  const call = callWith(await startServer({ store }));
  expect((await call("GET", "/v1/outbox")).body.code).toBe("not-supported");
  expect((await call("GET", "/v1/holds")).status).toBe(200);
  await expect(startServer({ store, outboxStore: store })).rejects.toThrow("permission denied");
});

const FIGURES: OutboxFigures = {
  undelivered: 10,
  waiting: 4,
  due: 3,
  delivering: 1,
  behind: 2,
  parked: 3,
  oldestMs: 61_500,
  topics: [],
  countedUpTo: 10_000,
};

describe("figures for metrics", () => {
  const gauges = (text: string) => text.split("\n").filter((line) => line.startsWith("nevertwice_outbox_"));

  test("/metrics has gauges of the caller's namespace", async (context) => {
    const { application, server } = await started(APPLICATIONS.postgres as never, context);
    await oneOfEach(application);
    await expect
      .poll(async () => gauges(await metricsOf(server, "default")))
      .toEqual([
        'nevertwice_outbox_messages{nevertwice_namespace="default",nevertwice_state="waiting"} 1',
        'nevertwice_outbox_messages{nevertwice_namespace="default",nevertwice_state="delivering"} 1',
        'nevertwice_outbox_messages{nevertwice_namespace="default",nevertwice_state="behind"} 1',
        'nevertwice_outbox_messages{nevertwice_namespace="default",nevertwice_state="parked"} 1',
        expect.stringMatching(
          /^nevertwice_outbox_oldest_age_seconds\{nevertwice_namespace="default"\} \d+(\.\d+)?$/,
        ),
      ]);
    const seen = async () => gauges(await metricsOf(server, "other"));
    await expect.poll(seen).toContain('nevertwice_outbox_oldest_age_seconds{nevertwice_namespace="other"} 0');
    expect((await seen()).join()).not.toContain('"default"');
  });

  test("/metrics answers soon and without the gauges while the database is unreachable", async (context) => {
    const proxy = await startProxy(await createDatabase(sharedUrl(context, "postgres")));
    const server = await startServer({ outboxStore: proxy.url });
    proxy.hang();
    const before = performance.now();
    const text = await metricsOf(server);
    expect(gauges(text)).toEqual([]);
    expect(performance.now() - before).toBeLessThan(3_000);
    expect(text).toContain("nevertwice_resident_bytes");
    // Before the server is closed: its connections would wait for an answer.
    await proxy.stop();
  });

  test("are read once for all collections of the next seconds, and one namespace at a time", async () => {
    const log: string[] = [];
    let running = 0;
    const figures = createLatelyRead(async (namespace) => {
      log.push(`${namespace} ${++running}`);
      await new Promise(setImmediate);
      running--;
      return FIGURES;
    });
    const reads = await Promise.all([figures.read(["a", "b"]), figures.read(["a", "b"])]);
    expect(reads.map((read) => [...read.keys()])).toEqual([
      ["a", "b"],
      ["a", "b"],
    ]);
    await figures.read(["a", "b"]);
    expect(log).toEqual(["a 1", "b 1"]);
  });

  test("are not read more often while the store fails or is slow", async () => {
    let now = 0;
    const log: string[] = [];
    const figures = createLatelyRead(
      async (namespace) => {
        log.push(`${namespace} at ${now}`);
        if (namespace === "down") throw new Error("down");
        now += 1_000;
        return FIGURES;
      },
      () => now,
    );
    for (let scrape = 0; scrape < 5; scrape++) await figures.read(["down", "slow"]);
    expect(log).toEqual(["down at 0", "slow at 0"]);
    now = 19_999;
    await figures.read(["down"]);
    expect(log).toHaveLength(2);
    now = 20_000;
    expect([...(await figures.read(["down", "slow"])).keys()]).toEqual(["slow"]);
    expect(log.slice(2)).toEqual(["down at 20000", "slow at 20000"]);
  });

  test("are left out for a namespace that fails or hangs, which delays no other collection", async () => {
    const hang = new Promise<OutboxFigures>(() => {});
    const figures = createLatelyRead((namespace) =>
      namespace === "down"
        ? Promise.reject(new Error("down"))
        : namespace === "slow"
          ? hang
          : Promise.resolve(FIGURES),
    );
    expect([...(await figures.read(["down", "good", "slow"])).keys()]).toEqual(["good"]);
    expect([...(await figures.read(["good", "slow"])).keys()]).toEqual(["good"]);
  });

  describe("with an OpenTelemetry SDK", () => {
    afterEach(() => otelMetrics.disable());

    test("are gauges", async () => {
      const sdk = createMetricsSdk();
      otelMetrics.setGlobalMeterProvider(sdk.meterProvider);
      const application = await sqliteApplication();
      onTestFinished(() => application.close());
      await startServer({ store: application.url });
      await application.send({ topic: "a", body: 1 }, { topic: "a", body: 2 });
      const points = async (name: string) =>
        (await sdk.metric(name))?.dataPoints.map(({ attributes, value }) => [attributes, value]) ?? [];
      const label = { "nevertwice.namespace": "default" };
      // A collection does not wait until a slow database has answered.
      await expect
        .poll(() => points("nevertwice.outbox.messages"))
        .toContainEqual([{ ...label, "nevertwice.state": "waiting" }, 2]);
      expect(await points("nevertwice.outbox.oldest_age")).toEqual([[label, expect.any(Number)]]);
    });
  });
});
