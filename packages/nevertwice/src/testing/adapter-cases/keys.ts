/** Which requests the layer protects, and which keys are valid. Other requests pass as if there were no layer. */
import type { Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect } from "../cases/expect.ts";
import {
  expectProblem,
  expectReplay,
  expectSame,
  expectUnmarked,
  headerValues,
  REPLAYED,
} from "./response-checks.ts";
import { answer, countingRuns, json } from "./script.ts";
import {
  type CaseApp,
  type ExchangeCase,
  type ExchangeCases,
  KEY,
  type RequestOverrides,
  TENANT,
} from "./stage.ts";

const REFUSED: Readonly<Record<string, readonly string[]>> = {
  "two header lines with different keys are refused": ["one", "two"],
  "two header lines with the same key are refused": ["one", "one"],
  "an empty key is refused": [""],
  "an empty key in quotes is refused": ['""'],
  "a key with a space is refused": ["a key"],
  "a key of 256 characters is refused": ["k".repeat(256)],
};

async function expectUntouched(app: CaseApp, asked: RequestOverrides): Promise<void> {
  await app.ask(asked);
  await app.ask(asked);
  expect("how often the handler ran", app.runs(), 2);
  expect("how often the store was asked", app.store.calls.claim, 0);
}

const ORIGIN = ["Origin", "https://shop.example"] as const;

const SWITCHED = "HTTP/1.1 101 Switching Protocols";
const HANDSHAKE = `GET /chat HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nIdempotency-Key: ${KEY}\r\n\r\n`;

/** The names in a header that holds a list, in lower case. */
function listed(
  app: { headers: Parameters<typeof headerValues>[0]["headers"] },
  name: string,
): readonly string[] {
  return headerValues(app, name)
    .flatMap((value) => value.split(","))
    .map((each) => each.trim().toLowerCase());
}

export const keys: ExchangeCases = {
  ...Object.fromEntries(
    Object.entries(REFUSED).map(([name, key]): [string, ExchangeCase] => [
      name,
      {
        why: "If a malformed key were ignored, its request would run unprotected.",
        async check(stage) {
          const app = await stage.app(countingRuns);
          expectProblem(await app.ask({ key }), 400, "key-invalid");
          expect("how often the handler ran", app.runs(), 0);
          expect("how often the store was asked", app.store.calls.claim, 0);
        },
      },
    ]),
  ),
  "a scope that is too long is refused, and nothing runs": {
    why: "The scope usually comes from the request, so one that is too long is an error of the request, not of the service.",
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
  "with stripe-v1, a comma in one header line is a part of the key": {
    needs: ["header-lines"],
    why: "Stripe's own service takes such keys, and its clients send them.",
    async check(stage) {
      const app = await stage.app(countingRuns, { options: { profile: "stripe-v1" } });
      const first = await app.ask({ key: "order 7, part 2" });
      expect("the status", first.status, 201);
      expectReplay(await app.ask({ key: "order 7, part 2" }), first);
      expectUnmarked(await app.ask({ key: "order 7" }), "the answer for the part before the comma");
      expect("how often the handler ran", app.runs(), 2);
    },
  },
  "with stripe-v1, two header lines are refused": {
    why: "Frameworks join lines by commas, and two keys must never count as one.",
    async check(stage) {
      const app = await stage.app(countingRuns, { options: { profile: "stripe-v1" } });
      expect("the status", (await app.ask({ key: ["order 7", "part 2"] })).status, 400);
      expect("how often the handler ran", app.runs(), 0);
    },
  },
  "a comma in a key without quotes is refused without a profile that allows it": {
    why: "Most services split such a value, so that one request would have two keys.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      expectProblem(await app.ask({ key: "order-7,part-2" }), 400, "key-invalid");
      expect("how often the handler ran", app.runs(), 0);
    },
  },
  "a key of 255 characters is accepted": {
    why: "The documentation promises this limit.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      expect("the status", (await app.ask({ key: "k".repeat(255) })).status, 201);
    },
  },
  "a key in quotes equals the key without quotes": {
    why: "The draft quotes keys and most clients do not, so a retry may come in the other form.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      const first = await app.ask({ key: "order-7" });
      expectReplay(await app.ask({ key: '"order-7"' }), first);
    },
  },
  "a request without a key passes without a call to the store": {
    why: "Requests without a key must not pay for those with one.",
    async check(stage) {
      await expectUntouched(await stage.app(countingRuns), { key: [] });
    },
  },
  "a request without a key is answered as by the bare application": {
    why: "A client that sends no key must not notice the layer.",
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
  "a request without a required key is refused": {
    why: "An operation that must not happen twice must not be started without a key.",
    async check(stage) {
      const app = await stage.app(countingRuns, { options: { required: true } });
      expectProblem(await app.ask({ key: [] }), 400, "key-missing");
      expect("how often the handler ran", app.runs(), 0);
    },
  },
  ...Object.fromEntries(
    ["GET", "PUT", "DELETE"].map((method): [string, ExchangeCase] => [
      `${method} passes, with a key and without`,
      {
        why: "A method that is idempotent by definition is answered from the current state, never from a record.",
        async check(stage) {
          await expectUntouched(await stage.app(countingRuns), { method });
        },
      },
    ]),
  ),
  "HEAD passes and is answered as by the bare application": {
    why: "A Content-Length without a body is easily broken.",
    async check(stage) {
      const script = () => answer(200, json({ ok: true }), [["ETag", '"v1"']]);
      const bare = await stage.bare(script);
      const app = await stage.app(script);
      expectSame(await app.ask({ method: "HEAD" }), await bare.ask({ method: "HEAD" }));
      await expectUntouched(await stage.app(script), { method: "HEAD" });
    },
  },
  "a method in the option methods is protected": {
    why: "An application may have a DELETE that must not happen twice.",
    async check(stage) {
      const app = await stage.app(countingRuns, { options: { methods: ["DELETE"] } });
      const first = await app.ask({ method: "DELETE" });
      expectReplay(await app.ask({ method: "DELETE" }), first);
      expect("the status of a POST", (await app.ask()).status, 201);
      expect("how often the handler ran", app.runs(), 2);
    },
  },
  "the same key of two tenants is two keys": {
    why: "A tenant that gets another tenant's answer learns its secrets.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      const first = await app.ask({ headers: [[TENANT, "one"]] });
      const second = await app.ask({ headers: [[TENANT, "two"]] });
      expectUnmarked(second, "the second tenant's answer");
      expect("how often the handler ran", app.runs(), 2);
      expectReplay(await app.ask({ headers: [[TENANT, "one"]] }), first);
      expectReplay(await app.ask({ headers: [[TENANT, "two"]] }), second);
    },
  },
  "the same key on two paths is two keys": {
    why: "A key identifies one piece of work: the key of an order says nothing about a refund.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      await app.ask({ target: "/orders" });
      const other = await app.ask({ target: "/refunds" });
      expect("the status at the other path", other.status, 201);
      expect("how often the handler ran", app.runs(), 2);
    },
  },
  "the same key with another query is a conflict": {
    why: "The query may change the meaning of a request.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      await app.ask({ target: "/orders?dry=1" });
      expectProblem(await app.ask({ target: "/orders?dry=0" }), 422, "conflict");
    },
  },
  "a preflight allows the key's header in addition to what the application allows": {
    why: "If the header is not allowed, a browser sends no request at all.",
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
  "the layer exposes its headers to other origins in addition to what the application exposes": {
    why: "A script can handle a replay only if it can read the header that marks it.",
    async check(stage) {
      const script = () => answer(200, json({}), [["Access-Control-Expose-Headers", "ETag"]]);
      const app = await stage.app(script);
      const exposed = (found: Parameters<typeof listed>[0]) => listed(found, "access-control-expose-headers");
      const ours = [REPLAYED, "retry-after"];
      expect("on a first answer", exposed(await app.ask({ headers: [ORIGIN] })), ["etag", ...ours]);
      expect("on a replay", exposed(await app.ask({ headers: [ORIGIN] })), ours);
      expect("on a problem", exposed(await app.ask({ headers: [ORIGIN], body: "{}" })), ours);
      expect("where there is no origin", exposed(await app.ask({ key: "other" })), ["etag"]);
    },
  },
  "a websocket handshake to the same server works": {
    needs: ["upgrades"],
    why: "The layer must not affect connections that are upgraded to another protocol.",
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
