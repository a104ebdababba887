/** A client that retries with one key over an unreliable connection, and a form that is clicked more than once. */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { createFetch, createSubmission, isNevertwiceError, isNoAnswer } from "nevertwice/client";

/**
 * A shop that runs once for each key and remembers its answer. The next `lost` answers do not arrive.
 *
 * @type {Map<string, string>}
 */
const orders = new Map();
let lost = 0;
const server = createServer((request, response) => {
  const key = String(request.headers["idempotency-key"]);
  request.resume();
  request.on("end", () => {
    if (!orders.has(key)) orders.set(key, `order ${orders.size + 1}`);
    if (lost-- > 0) request.socket.destroy();
    else response.writeHead(201).end(orders.get(key));
  });
});
await new Promise((listening) => server.listen(0, () => listening(undefined)));
const address = /** @type {import("node:net").AddressInfo} */ (server.address());
const url = `http://localhost:${address.port}/orders`;

// Two answers get lost. The first try did the work, and the third one gets its answer.
const quick = { firstPauseMs: 20, maxPauseMs: 20 };
const fetch = createFetch({ ...quick, onRetry: ({ tries }) => console.log(`try ${tries} got no answer`) });
lost = 2;
const response = await fetch(url, { method: "POST", body: "one coffee" });
console.log(`${await response.text()}, and the shop has ${orders.size}`);
assert.equal(orders.size, 1);

// A form, double-clicked: one request, and both clicks get its answer.
const submission = createSubmission({ fetch: createFetch({ ...quick, retries: 0 }) });
const form = { method: "POST", body: new URLSearchParams({ item: "tea" }) };
const clicks = await Promise.all([submission.send(url, form), submission.send(url, form)]);
console.log(`two clicks: ${(await Promise.all(clicks.map((click) => click.text()))).join(" and ")}`);
assert.equal(orders.size, 2);

// The answer gets lost, and this client does not retry: it is unknown whether there is an order.
lost = 1;
await assert.rejects(submission.send(url, form), (error) => isNoAnswer(error) && error.hasKey);
console.log(`no answer: the submission is ${submission.status}`);

// Other content is refused: the first request may have been carried out, and it was.
const edited = { method: "POST", body: new URLSearchParams({ item: "two teas" }) };
await assert.rejects(submission.send(url, edited), (error) => isNevertwiceError(error, "conflict"));
console.log("an edited form is refused until that is known");

// The same content again: the server replays its answer.
const again = await submission.send(url, form);
console.log(`try again: ${await again.text()}, and the submission is ${submission.status}`);
assert.equal(orders.size, 3);

server.close();
server.closeAllConnections();
