/** Tests that the examples are run as a reader would run them: as programs of their own, on the build that `npm test` made before. */
import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const FOLDER = fileURLToPath(new URL("../../../examples/", import.meta.url));

/** Lines that each must print, in this order; an example also asserts its own claims, and fails by its exit code. */
const EXPECTED: Readonly<Record<string, readonly string[]>> = {
  "airline-seat.js": [
    "an hour of requests: 40 held, 20 rejected",
    "sent again: 34 got the same id, 20 the same rejection",
    "past the window: seat 1 was free and is held again, 5 seats were taken",
    "40 seats held, none of them twice",
  ],
  "card-authorisation.js": [
    "three tries, one hold: 750 of 1000 free",
    "token-collision: this key was used with another value of units",
    "captured 230, and again: 770 of 1000 free",
    "a second capture: not-held, the commitment is already confirmed",
    "audit: 1 commitment, 4 keys, nothing wrong",
  ],
  "charge.js": [
    "ran once: receipt-1, and the retry got receipt-1",
    "conflict: order-1 was charged with another amount before",
    "failed, then ran: receipt-2",
    "tryRun: replayed",
  ],
  "client.js": [
    "try 2 got no answer",
    "order 1, and the shop has 1",
    "two clicks: order 2 and order 2",
    "no answer: the submission is unknown",
    "an edited form is refused until that is known",
    "try again: order 3, and the submission is ready",
  ],
  "config-tuner.js": [
    "set 20",
    'kept 10: "pool.size" had 2 changes to about 20 within 60 s, and at most 2 are allowed: it is flapping.',
    'kept 10: "pool.size" had 2 changes to about 20.1 within 60 s',
    "set 15",
    "set 20",
    "3 changes were refused",
  ],
  "express-payments.js": [
    "no key: 400 key-missing",
    "20 clicks: 1 receipt, 1 charge",
    "retry: 201 /payments/receipt-1, replayed",
    "another amount: 422 conflict",
    "bob with the same key: 201, a charge of his own",
    "declined: 402, and on retry 402 without asking the provider",
    "outage: 503, then 201; the provider saw one key for both",
  ],
  "fastify-app.js": [
    "transfer without a key: 400 key-missing",
    "transfer: 201, and again 201 with the same location",
    "the key for another transfer: 422 conflict",
    "password: 201, and again 409 already-done",
    "search: ran 2 times",
  ],
  "hold-in-transaction.js": ["This one needs a database"],
  "hono-app.js": [
    "order: 201 /orders/order-1, and again 201 /orders/order-1",
    "another item: 422 conflict",
    "without a key: 2 more orders",
    "reservation: 409, 201, 201 replayed",
    "a bug: 500, and the key is free",
  ],
  "hospital-bed.js": [
    "two clicks, one assignment: 1 entry in the log",
    "another ward: resource-unavailable",
    "after the discharge: patient 52 has bed 307",
    "patient 41: placed, confirmed, given-back",
  ],
  "mcp-tool.js": [
    "called twice: receipt 1 for 42, and receipt 1 for 42",
    "planned anew: conflict: this key was used for a different request",
    "no key: key-missing: this tool needs an idempotency key",
    "declined: card declined, and nothing is kept",
    "may it be repeated? true; if we do not trust the server: false",
    "charged 2 times in all",
  ],
  "nightly-batch.js": [
    "first night: 499 invoices billed once, 1 failed",
    "once more: 499 done before, 1 billed",
    "after one was taken back: 1 billed",
  ],
  "observer.js": ["claimed    3", "completed  2", "replayed   5"],
  "one-at-a-time.js": [
    "5 callers, at most 1 at a time",
    "the paused holder's write was refused by its fence",
    "and it was told lease-lost: it was not alone",
    "three repairs asked for, 2 done: clear search, restart search",
    "nine minutes later: not again",
    "ten minutes later: again",
  ],
  "one-of-one.js": [
    "200 requests of 50 shoppers: 1 has the item, 49 were rejected",
    "the shop has 1 reservation",
    "an old key: resource-unavailable",
    "a new key: reserved",
  ],
  "outbox.js": [
    "rolled back: over the limit",
    "two clicks and one failure: 2 messages",
    "delivered in attempt 2: order.paid of order-1",
    "delivered in attempt 1: receipt.wanted of order-1",
    "the repeated message has the same id: true",
  ],
  "pipeline.js": [
    "six deliveries: 1 charge, 1 receipt",
    "asked again: replied receipt-1",
    "busy: 1 retry, then charged",
    "no customer: reject, key-missing",
    "on the list: r-3: 180000 is a lot",
  ],
  "protected-charge.js": [
    "ran: receipt-1 after 3 tries, charged once",
    "failed: order-2 is a dead letter, and the breaker is open",
    "replayed through the open breaker: receipt-1",
    "two operators: ran and replayed, charged once",
  ],
  "saga.js": [
    "shipped: reserve, charge, ship",
    "refused: reserve, charge, undo charge, undo reserve",
    "run again: 4 effects, as before",
    "an outage: reserve, charge, and nothing is undone",
    "come again: reserve, charge, ship",
    "parked: the undo of charge says: the bank is closed",
    "resolved: reserve, charge, undo charge, undo reserve",
  ],
  "sealed.js": [
    "at rest: sealed.1.2025.",
    "and replayed: report 1: all is well",
    "rotated: sealed with 2025 and 2026, and visit 1 is still report 1: all is well",
    "without the old key: sealing-failed, and still 2 reports",
  ],
  "stateless-lambda.js": [
    "registered, on two instances: version 1",
    "five adjustments at once, and all of them again: the load is 50",
    "one event on both at once: done once",
    "an unknown type: an error, for the dead-letter queue",
  ],
  "storm.js": [
    "ok      all 400 callers hold the same receipt",
    "ok      it was taken over as attempt 2",
    "ok      the ledger refused the late writer by its fence",
    "ok      callers get the receipt that was found",
    "All 16 promises kept, in ",
  ],
  "telemetry.js": [
    "span: nevertwice charge, replayed, linked to span 1",
    "nevertwice.claims: 1 new",
    "nevertwice.claims: 1 conflict",
  ],
  // With a database they are run in test/stores/transaction-examples.test.ts.
  "transaction-drizzle-mysql.js": ["This one needs a server"],
  "transaction-drizzle.js": ["This one needs a database"],
  "transaction-knex-mysql.js": ["This one needs a server"],
  "transaction-knex.js": ["This one needs a database"],
  "transaction-kysely.js": ["This one needs a database"],
  "upsert-dynamodb.js": [
    "upsert: two deliveries, version 1",
    "out of order: offline, as the latest event says",
    "within one second: online, as the highest sequence number says",
    "10 writers of version 4: 1 wrote version 5, 9 were told concurrent-modification",
    "10 that add one, reading again when told to: 10 more",
    "the same 10 again: none more",
  ],
  // With a database it is run in test/stores/upsert-postgres.test.ts.
  "upsert-postgres.js": ["This one needs a database"],
  "webhook.js": [
    "sent twice: 204 and 204, shipped 1",
    "forged: 401 signature-invalid",
    "failed: 500, come back in 1 s; then 204",
    "stripe: done",
    "stripe: done-before",
    "a day of memory for Stripe: refused",
  ],
  "wrap-and-decorate.js": [
    "wrap: two calls, 1 mail",
    "keyFrom: three calls, two mails",
    "decorator: two calls, 1 parcel",
  ],
};

describe("examples", () => {
  it("are all run here", () => {
    const files = readdirSync(FOLDER).filter((name) => name.endsWith(".js"));
    expect(files.sort()).toEqual(Object.keys(EXPECTED));
  });

  it.each(Object.entries(EXPECTED))("%s does what it says", { timeout: 30_000 }, async (file, lines) => {
    const { code, output } = await run(`${FOLDER}${file}`);
    expect(code, output).toBe(0);
    let from = 0;
    for (const line of lines) {
      const found = output.indexOf(line, from);
      expect(found, `"${line}" is not in what follows:\n${output.slice(from)}`).toBeGreaterThanOrEqual(0);
      from = found + line.length;
    }
  });
});

function run(file: string): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [file], { timeout: 25_000 }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : 1;
      resolve({ code, output: `${stdout}${stderr}` });
    });
  });
}
