/** Tests damaged rows of holds, and a changed window, as seen over HTTP and on the command line. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, describe, expect, it, test } from "vitest";
import { type Scene, sceneOf } from "./calling.ts";
import { json, run } from "./cli-process.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "nevertwice-corrupt-"));
afterAll(() => rmSync(FOLDER, { recursive: true, force: true }));

const HOLD = { requester: "ann", durationMs: 3_600_000 };
const TEN_MINUTES = 600_000;

interface Holds extends Scene {
  readonly file: string;
  readonly service: string;
  readonly operator: string;
  readonly broken: string;
  readonly healthy: string;
}

async function holdsIn(name: string): Promise<Holds> {
  const file = join(FOLDER, `${name}.db`);
  const scene = await sceneOf({ store: `sqlite:${file}`, holdsWindow: TEN_MINUTES });
  const service = await scene.token({});
  const operator = await scene.token({ name: "desk", role: "operator" });
  const place = async (resource: string) =>
    (await scene.call("POST /v1/holds", { token: service, key: resource, body: { ...HOLD, resource } })).body
      .id;
  return {
    ...scene,
    file,
    service,
    operator,
    broken: await place("broken"),
    healthy: await place("healthy"),
  };
}

function change(file: string, sql: string): void {
  const database = new DatabaseSync(file);
  try {
    database.exec(sql);
  } finally {
    database.close();
  }
}

const KEY = "nevertwice_reservation_keys SET";
const DAMAGES: readonly (readonly [what: string, sql: (id: string) => string])[] = [
  ["an answer that is not JSON", (id) => `UPDATE ${KEY} answer = '{' WHERE commitment = '${id}'`],
  ["parameters of another shape", (id) => `UPDATE ${KEY} parameters = '[]' WHERE commitment = '${id}'`],
  [
    "a time that no date has",
    (id) => `UPDATE nevertwice_commitments SET expires_at = 9007199254740991 WHERE id = '${id}'`,
  ],
  [
    "a number beyond 2^53",
    (id) => `UPDATE nevertwice_commitments SET units = 9223372036854775807 WHERE id = '${id}'`,
  ],
  [
    "a state that does not exist",
    (id) => `UPDATE nevertwice_commitments SET state = 'lost' WHERE id = '${id}'`,
  ],
  ["text for a number", () => "UPDATE nevertwice_resources SET taken = 'many' WHERE name = 'broken'"],
  [
    "an event that is not JSON",
    (id) => `UPDATE nevertwice_reservation_events SET detail = '{' WHERE subject = 'commitment:${id}'`,
  ],
];

describe.each(DAMAGES)("over HTTP, %s", (what, sql) => {
  test("is reported by the audit, shows no driver errors to clients, and leaves all other rows working", async () => {
    const { call, file, service, operator, broken, healthy } = await holdsIn(what.replaceAll(/\W/g, "-"));
    change(file, sql(broken));
    const audit = await call("GET /v1/audit", { token: operator });
    expect(audit.status).toBe(200);
    expect(audit.body.data.ok).toBe(false);
    const unread = audit.body.data.invariants.find(({ id }: { id: string }) => id === "S1");
    expect(unread.offenders.join ? unread.offenders.length : 0).toBe(1);
    expect(unread.offenders[0].problem).toMatch(/^nevertwice_\w+, row .+, column \w+: it /);
    expect((await call("GET /v1/audit?format=text", { token: operator })).text).toContain("S1   BROKEN");
    expect((await call(`GET /v1/audit/holds/${broken}`, { token: operator })).status).toBe(200);
    expect((await call("GET /v1/audit/doubles?withinMs=1000", { token: operator })).status).toBe(200);
    const others = await Promise.all([
      ...[
        "/v1/holds",
        "/v1/holds?limit=1",
        "/v1/resources",
        `/v1/holds/${broken}`,
        "/v1/resources/broken",
      ].map((path) => call(`GET ${path}`, { token: operator })),
      ...["confirm", "release", "expire", "give-back"].map((action) =>
        call(`POST /v1/holds/${broken}/${action}`, { token: service, key: action }),
      ),
      call("POST /v1/holds", { token: service, key: "broken", body: { ...HOLD, resource: "broken" } }),
      call("POST /v1/holds", { token: service, key: "once more", body: { ...HOLD, resource: "broken" } }),
    ]);
    for (const { status, body, text } of others)
      if (status >= 500) expect(body.code ?? body.reason, text).toMatch(/^(store-unsafe|storage-failure)$/);
    expect((await call(`GET /v1/holds/${healthy}`, { token: operator })).body).toMatchObject({
      state: "held",
    });
    expect((await call(`POST /v1/holds/${healthy}/confirm`, { token: service, key: "c" })).status).toBe(200);
  });
});

describe("the command", { timeout: 120_000 }, () => {
  it("names the damaged row and continues with the others", async () => {
    const { server, file, broken, healthy } = await holdsIn("command");
    change(file, `UPDATE nevertwice_commitments SET expires_at = 9007199254740991 WHERE id = '${broken}'`);
    await server.close();
    const store = ["--store", `sqlite:${file}`];
    const audit = await run(["audit", ...store]);
    expect(audit.code).toBe(1);
    expect(audit.out.join("\n")).toContain(
      `nevertwice_commitments, row ${broken}, column expires_at: it is 9007199254740991`,
    );
    const listed = await run(["holds", "list", ...store]);
    expect(listed.out.join("\n")).toContain(healthy);
    expect(listed.out.join("\n")).toContain("1 more cannot be read; nevertwice audit lists them");
    const shown = await run(["holds", "show", broken, ...store]);
    expect([shown.code, shown.err.join("\n")]).toEqual([1, expect.stringContaining("store-unsafe")]);
    expect(shown.err.join("\n")).not.toContain("    at ");
    expect((await run(["audit", "trace", broken, ...store])).code).toBe(0);
  });

  it("passes for a store whose window was changed, and accepts the windows of older records", async () => {
    const { server, call, service, file } = await holdsIn("windows");
    await call("POST /v1/holds", { token: service, key: "refused", body: { ...HOLD, resource: "healthy" } });
    await server.close();
    const store = ["--store", `sqlite:${file}`];
    const later = await sceneOf({ store: `sqlite:${file}`, holdsWindow: 24 * 3_600_000 });
    const operator = await later.token({ name: "desk-2", role: "operator" });
    expect((await later.call("GET /v1/audit", { token: operator })).body.data.ok).toBe(true);
    // As an earlier release would have left it.
    change(file, `UPDATE ${KEY} answer = json_remove(answer, '$.windowMs') WHERE commitment IS NULL`);
    expect((await later.call("GET /v1/audit", { token: operator })).body.data.ok).toBe(false);
    const given = await later.call(`GET /v1/audit?windowsMs=86400000,${TEN_MINUTES}`, { token: operator });
    expect(given.body.data.ok).toBe(true);
    expect((await later.call("GET /v1/audit?windowsMs=ten", { token: operator })).status).toBe(400);
    await later.server.close();
    expect((await run(["audit", ...store, "--windows", "1h"])).code).toBe(1);
    expect((await run(["audit", ...store, "--windows", "1h,10m"])).code).toBe(0);
    expect(await json("audit", "doubles", "--within", "1h", "--windows", "10m", ...store)).toMatchObject({
      count: 0,
    });
    expect((await run(["audit", ...store, "--windows", "ten"])).code).toBe(2);
  });
});
