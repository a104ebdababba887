/** Tests reservations on a real store that several servers share. */
import { expect, inject, onTestFinished, test } from "vitest";
import { createReservations } from "../../src/reservations/index.ts";
import { postgresReservations } from "../../src/reservations/postgres.ts";
import { createDatabase, poolOf } from "./postgres/database.ts";

const { postgres: server } = inject("services");

test("Grace: cluster-wide via shared store: servers with separate connections give one answer to one key", async ({
  skip,
}) => {
  if (typeof server !== "string") return skip(server.skipped);
  const url = await createDatabase(server);
  const servers = await Promise.all(
    Array.from({ length: 3 }, async () => {
      const pool = poolOf(url);
      onTestFinished(() => pool.end());
      const store = postgresReservations({ client: pool });
      await store.migrate();
      return createReservations({ store, windowMs: 60_000, purgeEveryMs: 0 });
    }),
  );
  const request = { resource: "room", requester: "ann", durationMs: 60_000, key: "k" };
  const answers = await Promise.all(
    servers.flatMap((desk) => Array.from({ length: 10 }, () => desk.placeHold(request))),
  );
  expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
  expect(answers[0]).toMatchObject({ ok: true });
  expect((await servers[0]?.listHeld())?.rows).toHaveLength(1);
});
