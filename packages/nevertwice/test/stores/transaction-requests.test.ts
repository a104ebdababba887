/** Tests the warning about work that sends an HTTP request inside its transaction, with real requests. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, get } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { gate } from "../deferred.ts";
import { poolOf } from "./postgres/database.ts";
import { onPostgres } from "./transaction/scene.ts";

const warnings: (Error & { readonly code?: string })[] = [];
const listen = (warning: Error) => {
  if (warning.name === "NevertwiceWarning") warnings.push(warning);
};

beforeEach(() => {
  warnings.length = 0;
  process.on("warning", listen);
  return () => void process.off("warning", listen);
});

/** Warnings are emitted in a later turn of the event loop. */
const warned = async () => {
  await new Promise(setImmediate);
  return warnings.map(({ code, message }) => [code, message]);
};

async function startService(): Promise<string> {
  const server = createServer((_, response) => response.end("paid"));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function sendByHttp(url: string): Promise<void> {
  const request = get(url);
  const [response] = await once(request, "response");
  response.resume();
}

const SENDERS = {
  fetch: async (url: string) => void (await (await fetch(url)).text()),
  "node:http": sendByHttp,
};

test.for(Object.entries(SENDERS))(
  "work that sends a request with %s warns once for its operation",
  async ([, send], context) => {
    const { url, guard } = await onPostgres(context);
    const service = await startService();
    const pool = poolOf(url);
    onTestFinished(() => pool.end());
    const operation = `pay ${randomUUID()}`;
    for (const key of ["1", "2"])
      await guard.transaction({ operation, key }, pool, async (tx) => {
        await tx.query("SELECT 1");
        await send(`${service}/charges?secret=4111`);
      });
    expect(await warned()).toEqual([
      [
        "NEVERTWICE_REQUEST_IN_TRANSACTION",
        expect.stringContaining(`${operation}": its work sent a request to http://127.0.0.1`),
      ],
    ]);
    expect(warnings[0]?.message).not.toContain("4111");
  },
);

test("a step with a database warns too, and requests outside of transactions do not", async (context) => {
  const { url, guard } = await onPostgres(context);
  const service = await startService();
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  const send = async () => {
    await SENDERS.fetch(service);
    await sendByHttp(service);
  };
  const operation = `order ${randomUUID()}`;
  await guard.run({ operation, key: "k" }, async (attempt) => {
    await attempt.step("charge", send);
    await attempt.step("book", pool, async (tx) => void (await tx.query("SELECT 1")));
    await send();
    expect(await warned()).toEqual([]);
    await attempt.step("ship", pool, send);
  });
  await send();
  expect(await warned()).toEqual([["NEVERTWICE_REQUEST_IN_TRANSACTION", expect.stringContaining(operation)]]);
});

test("what the work started and did not await may send requests and begin transactions once it is over", async (context) => {
  const { url, guard } = await onPostgres(context);
  const service = await startService();
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  const over = gate();
  let later: Promise<unknown> | undefined;
  const operation = `pay ${randomUUID()}`;
  await guard.transaction({ operation, key: "1" }, pool, async () => {
    const nested = () => guard.transaction({ operation, key: "2" }, pool, async () => "second");
    await expect(nested()).rejects.toMatchObject({ code: "options-invalid" });
    later = over.opened.then(async () => {
      await SENDERS.fetch(service);
      return nested();
    });
  });
  over.open();
  expect(await later).toBe("second");
  expect(await warned()).toEqual([]);
});
