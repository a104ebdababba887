/** Tests `openReservations`: a URL is enough, and the error for a wrong URL does not contain its password. */
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
// Uses the build: reservations in a SQLite file start a worker thread, which Node 20 cannot start from TypeScript.
import { openReservations } from "../../dist/reservations/open.js";
import { createReservations } from "../../src/reservations/index.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { type ServiceName, sharedUrl } from "../services/services.ts";
import { newDatabase } from "./mysql/pools.ts";

/** Places a hold once through two stores of this URL, and closes both with their clients. */
async function holdsOnceOn(url: string, isShared = true): Promise<void> {
  const namespace = `open-${randomUUID()}`;
  const request = { resource: "room", requester: "ann", durationMs: 60_000, key: "k" };
  const answers: unknown[] = [];
  for (let opened = 0; opened < 2; opened++) {
    const store = await openReservations(url);
    const reservations = createReservations({ store, namespace, windowMs: 600_000, actionMs: 60_000 });
    const answer = await reservations.placeHold(request);
    expect(answer).toMatchObject({ ok: true });
    answers.push(answer);
    await reservations.close();
    await store.close();
    if (isShared) await expect(store.get(namespace, "any")).rejects.toThrow();
  }
  const [first, second] = answers;
  if (isShared) expect(second).toEqual(first);
  else expect(second).not.toEqual(first);
}

test("memory: opens a new store each time", async () => {
  await holdsOnceOn("memory:", false);
});

test("sqlite: opens a file, with its settings in the URL", async () => {
  const folder = await scratchFolder();
  await holdsOnceOn(`sqlite:${folder}/with%20space.db`);
  await holdsOnceOn(`sqlite://${folder}/absolute.db?synchronous=normal&exclusive=true`);
});

const SERVED: readonly (readonly [string, ServiceName, (url: string) => string])[] = [
  ["postgres:// migrates and opens", "postgres", (url) => url],
  ["postgresql:// is the same", "postgres", (url) => url.replace(/^postgres(ql)?:/, "postgresql:")],
  ["postgres:// with prepare=false opens behind PgBouncer", "pgbouncer", (url) => `${url}?prepare=false`],
  ["mysql:// migrates and opens", "mysql", (url) => url],
];

for (const [title, service, toUrl] of SERVED) {
  test(title, async (context) => {
    await holdsOnceOn(toUrl(sharedUrl(context, service)));
  });
}

test("migrate: false creates no tables", async (context) => {
  const url = await newDatabase(context);
  const store = await openReservations(url, { migrate: false });
  await expect(store.now()).rejects.toMatchObject({ code: "store-unsafe" });
  await store.close();
});

test.each([
  ["", "the reservations' URL"],
  ["nonsense", /is not a reservations URL.*memory:.*mysql:/],
  ["mongodb://user:secret@host/db", /is not a reservations URL/],
  ["redis://:secret@host", /cannot store reservations.*sqlite:, postgres:\/\/ or mysql:\/\//],
  ["rediss+cluster://user:secret@host", /cannot store reservations/],
  ["dynamodb://eu-west-1/table", /cannot store reservations/],
  ["etcd://127.0.0.1:2379/shop", /cannot store reservations/],
  ["sqlite:", /names no file/],
  ["sqlite:./a.db?synchronous=off", /synchronous=off; it must be full or normal/],
  ["postgres://user:secret@127.0.0.1:1/db?prepare=maybe", /prepare=maybe/],
  ["mysql://root:secret@host:port/x", /is malformed/],
])("%j is rejected with the reason, and without its password", async (url, why) => {
  const error = await openReservations(url).catch((thrown) => thrown);
  expect(error).toMatchObject({ code: "options-invalid" });
  expect(error.message).toMatch(why);
  expect(error.message).not.toContain("secret");
});

test("an unknown option is rejected", async () => {
  const options = { migrat: false } as object;
  await expect(openReservations("memory:", options)).rejects.toMatchObject({ code: "options-invalid" });
});

test("an unreachable server fails the migration and leaves no connection open", async () => {
  for (const url of ["postgres://user:secret@127.0.0.1:1/db", "mysql://user:secret@127.0.0.1:1/db"])
    await expect(openReservations(url)).rejects.toMatchObject({
      code: "unavailable",
      message: expect.not.stringContaining("secret"),
    });
});
