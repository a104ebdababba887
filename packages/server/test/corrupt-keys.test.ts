/** Tests a damaged record of a key, as operators and auditors see it over HTTP and on the command line. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, onTestFinished, test } from "vitest";
import { sceneOf } from "./calling.ts";
import { run } from "./cli-process.ts";

async function damagedStore() {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-corrupt-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "keys.db");
  const scene = await sceneOf({ store: `sqlite:${file}` });
  const service = await scene.token({});
  const claim = async (key: string) =>
    (await scene.call("POST /v1/claims", { token: service, body: { operation: "charge", key } })).body.id;
  const [broken, healthy] = [await claim("broken"), await claim("healthy")];
  const database = new DatabaseSync(file);
  database.exec(
    `UPDATE nevertwice_records SET state = 'lost' WHERE id = '${broken}' OR hex(id) = upper('${broken}')`,
  );
  database.close();
  return { ...scene, file, broken, healthy };
}

test.each(["", "?search=charge"])(
  "GET /v1/keys%s names a damaged record beside the others",
  async (query) => {
    const { call, token, broken, healthy } = await damagedStore();
    const operator = await token({ name: "desk", role: "operator" });
    const { status, body } = await call(`GET /v1/keys${query}`, { token: operator });
    expect(status).toBe(200);
    const ids = body.records.map(({ id }: { id: string }) => id);
    expect([ids.includes(healthy), ids.includes(broken)]).toEqual([true, false]);
    expect(body.unreadable).toEqual([{ id: broken, reason: expect.stringContaining("damaged") }]);
  },
);

test("an auditor gets only its id, since a reason may quote the record", async () => {
  const { call, token, broken } = await damagedStore();
  const auditor = await token({ name: "audit", role: "auditor" });
  expect((await call("GET /v1/keys", { token: auditor })).body.unreadable).toEqual([{ id: broken }]);
});

test("nevertwice keys list shows it", async () => {
  const { server, file, broken } = await damagedStore();
  await server.close();
  const { out } = await run(["keys", "list", "--store", `sqlite:${file}`]);
  expect(out.join("\n")).toMatch(new RegExp(`unreadable .*${broken}`));
});
