/** Which requests the layer is for, and what a key must be. What is not for it passes as if it were not there. */
import type { Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect } from "../cases/expect.ts";
import { expectProblem, expectReplay, expectSame, valuesOf } from "./answers.ts";
import { answer, countingRuns, json } from "./script.ts";
import { type App, type Asked, type Case, type Cases, KEY, TENANT } from "./stage.ts";

const REFUSED: Readonly<Record<string, readonly string[]>> = {
  "two lines of keys are refused": ["one", "two"],
  "two equal lines of keys are refused": ["one", "one"],
  "an empty key is refused": [""],
  "an empty key in quotes is refused": ['""'],
  "a key with a space is refused": ["a key"],
  "a key of 256 characters is refused": ["k".repeat(256)],
};

async function expectUntouched(app: App, asked: Asked): Promise<void> {
  await app.ask(asked);
  await app.ask(asked);
  expect("how often the handler ran", app.runs(), 2);
  expect("how often the store was asked", app.store.calls.claim, 0);
}

const ORIGIN = ["Origin", "https://shop.example"] as const;

const SWITCHED = "HTTP/1.1 101 Switching Protocols";
const HANDSHAKE = `GET /chat HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nIdempotency-Key: ${KEY}\r\n\r\n`;

/** The names in a header that lists some, in lower case. */
function listed(
  app: { headers: Parameters<typeof valuesOf>[0]["headers"] },
  name: string,
): readonly string[] {
  return valuesOf(app, name)
    .flatMap((value) => value.split(","))
    .map((each) => each.trim().toLowerCase());
}

export const keys: Cases = {
  ...Object.fromEntries(
    Object.entries(REFUSED).map(([name, key]): [string, Case] => [
      name,
      {
        why: "A key that is ignored because it is malformed leaves its sender without the protection it asked for.",
        async check(stage) {
          const app = await stage.app(countingRuns);
          expectProblem(await app.ask({ key }), 400, "key-invalid");
          expect("how often the handler ran", app.runs(), 0);
          expect("how often the store was asked", app.store.calls.claim, 0);
        },
      },
    ]),
  ),
  "an owner whose name is too long is refused, and nothing runs": {
    why: "Whose a key is usually comes from the request: what it sends too much of is its own fault, and no failure.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      expectProblem(await app.ask({ headers: [[TENANT, "t".repeat(1_025)]] }), 400, "request-invalid");
      expect("how often the handler ran", app.runs(), 0);
      expect("how often the store was asked", app.store.calls.claim, 0);
      expect(
        "the status of an owner",
        (await app.ask({ headers: [[TENANT, "t".repeat(1_024)]] })).status,
        201,
      );
    },
  },
  "a key of 255 characters is taken": {
    why: "The limit is a promise.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      expect("the status", (await app.ask({ key: "k".repeat(255) })).status, 201);
    },
  },
  "a key in quotes is the key without them": {
    why: "The draft quotes keys and most clients do not: a retry through another client is still a retry.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      const first = await app.ask({ key: "order-7" });
      expectReplay(await app.ask({ key: '"order-7"' }), first);
    },
  },
  "a request without a key passes, and the store is not asked": {
    why: "Whoever sends no key pays nothing for those who do.",
    async check(stage) {
      await expectUntouched(await stage.app(countingRuns), { key: [] });
    },
  },
  "a request without a key is answered as by the bare application": {
    why: "Whoever sends no key must not notice the layer.",
    async check(stage) {
      const script = () =>
        answer(200, json({ ok: true }), [
          ["Set-Cookie", "a=1"],
          ["Set-Cookie", "b=2"],
        ]);
      const bare = await stage.bare(script);
      const app = await stage.app(script);
      expectSame(await app.ask({ key: [] }), await bare.ask({ key: [] }));
      expect("what the handler saw", app.seen, bare.seen);
    },
  },
  "a request without the key that is required is refused": {
    why: "An operation that must not happen twice must not be asked for without a key.",
    async check(stage) {
      const app = await stage.app(countingRuns, { options: { required: true } });
      expectProblem(await app.ask({ key: [] }), 400, "key-missing");
      expect("how often the handler ran", app.runs(), 0);
    },
  },
  ...Object.fromEntries(
    ["GET", "PUT", "DELETE"].map((method): [string, Case] => [
      `${method} passes, with a key and without`,
      {
        why: "A method that is idempotent by itself is answered from the present, never from a record.",
        async check(stage) {
          await expectUntouched(await stage.app(countingRuns), { method });
        },
      },
    ]),
  ),
  "HEAD passes and is answered as by the bare application": {
    why: "An answer without a body that says how long its body would be is easily broken.",
    async check(stage) {
      const script = () => answer(200, json({ ok: true }), [["ETag", '"v1"']]);
      const bare = await stage.bare(script);
      const app = await stage.app(script);
      expectSame(await app.ask({ method: "HEAD" }), await bare.ask({ method: "HEAD" }));
      await expectUntouched(await stage.app(script), { method: "HEAD" });
    },
  },
  "a method that was chosen is protected": {
    why: "Applications may have a DELETE that must not happen twice.",
    async check(stage) {
      const app = await stage.app(countingRuns, { options: { methods: ["DELETE"] } });
      const first = await app.ask({ method: "DELETE" });
      expectReplay(await app.ask({ method: "DELETE" }), first);
      expect("the status of a POST", (await app.ask()).status, 201);
      expect("how often the handler ran", app.runs(), 2);
    },
  },
  "one key of two tenants is two keys": {
    why: "A tenant that is shown another's answer has been told another's secret.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      const first = await app.ask({ headers: [[TENANT, "one"]] });
      const second = await app.ask({ headers: [[TENANT, "two"]] });
      expect("Idempotent-Replayed for the second tenant", valuesOf(second, "idempotent-replayed"), []);
      expect("how often the handler ran", app.runs(), 2);
      expectReplay(await app.ask({ headers: [[TENANT, "one"]] }), first);
      expectReplay(await app.ask({ headers: [[TENANT, "two"]] }), second);
    },
  },
  "one key at two paths is two keys": {
    why: "A key names one piece of work: an order's key says nothing about a refund.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      await app.ask({ target: "/orders" });
      const other = await app.ask({ target: "/refunds" });
      expect("the status at the other path", other.status, 201);
      expect("how often the handler ran", app.runs(), 2);
    },
  },
  "another query is another request": {
    why: "What a request asks for may be said in its address.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      await app.ask({ target: "/orders?dry=1" });
      expectProblem(await app.ask({ target: "/orders?dry=0" }), 422, "conflict");
    },
  },
  "a preflight is told that the key may be sent, besides what the application allows": {
    why: "A browser that may not send the key sends no request at all.",
    async check(stage) {
      const script = () => answer(204, undefined, [["Access-Control-Allow-Headers", "Content-Type"]]);
      const app = await stage.app(script);
      const found = await app.ask({
        method: "OPTIONS",
        key: [],
        headers: [ORIGIN, ["Access-Control-Request-Method", "POST"]],
      });
      expect("the status", found.status, 204);
      expect("the allowed headers", listed(found, "access-control-allow-headers"), [
        "content-type",
        "idempotency-key",
      ]);
    },
  },
  "another origin may read what the layer says, besides what the application exposes": {
    why: "A script that cannot see that an answer is a replay cannot act on it.",
    async check(stage) {
      const script = () => answer(200, json({}), [["Access-Control-Expose-Headers", "ETag"]]);
      const app = await stage.app(script);
      const exposed = (found: Parameters<typeof listed>[0]) => listed(found, "access-control-expose-headers");
      const ours = ["idempotent-replayed", "retry-after"];
      expect("on a first answer", exposed(await app.ask({ headers: [ORIGIN] })), ["etag", ...ours]);
      expect("on a replay", exposed(await app.ask({ headers: [ORIGIN] })), ours);
      expect("on a problem", exposed(await app.ask({ headers: [ORIGIN], body: "{}" })), ours);
      expect("where there is no origin", exposed(await app.ask({ key: "other" })), ["etag"]);
    },
  },
  "a websocket handshake to the same server works": {
    needs: ["upgrades"],
    why: "A layer for requests has no say in connections that become something else.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      const server = app.server as Server;
      server.on("upgrade", (_request, upgraded) => {
        upgraded.end(`${SWITCHED}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello`);
      });
      const { port } = server.address() as AddressInfo;
      const socket = connect(port, "127.0.0.1", () => socket.write(HANDSHAKE));
      let answered = "";
      for await (const chunk of socket) answered += String(chunk);
      expect("the first line", answered.split("\r\n")[0], SWITCHED);
      expect("what follows the handshake", answered.split("\r\n\r\n")[1], "hello");
      expect("how often the handler ran", app.runs(), 0);
    },
  },
};
