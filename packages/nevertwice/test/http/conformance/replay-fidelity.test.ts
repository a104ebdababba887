/** Tests what a duplicate gets: the first answer without its momentary headers, or a marker if the answer was not kept. */
import { describe, expect, test } from "vitest";
import { current } from "../../../src/http/current-replay.ts";
import { REPLAYED } from "../replayed-header.ts";
import type { Received } from "./service.ts";
import { gate, type Handler, serve } from "./service.ts";

async function twice(handler: Handler, more: Parameters<typeof serve>[0] = {}) {
  const service = await serve({ ...more, handler });
  const first = await service.send({ key: "k" });
  const second = await service.send({ key: "k" });
  return { service, first, second };
}

const isReplayed = (answer: Received) => answer.header(REPLAYED);

describe("a replay", () => {
  test("RP-01 has the header that marks it", async () => {
    const { second } = await twice(({ res }) => res.end("done"));
    expect(isReplayed(second)).toBe("true");
    const named = await twice(({ res }) => res.end("done"), { options: { replayedHeader: "X-Replay" } });
    expect([named.second.header("x-replay"), isReplayed(named.second)]).toEqual(["true", undefined]);
  });

  test("RP-02 differs from the first answer, which has no such header", async () => {
    const { first } = await twice(({ res }) => res.end("done"));
    expect(isReplayed(first)).toBeUndefined();
  });

  test("RP-03 equals the first answer to the byte, although the resource has changed since", async () => {
    const order = { id: 17, state: "open" };
    const service = await serve({
      handler: ({ res }) =>
        res.writeHead(201, { "Content-Type": "application/json" }).end(JSON.stringify(order)),
    });
    const first = await service.send({ key: "k" });
    order.state = "shipped";
    const second = await service.send({ key: "k" });
    expect([second.status, second.text, second.body.equals(first.body)]).toEqual([
      201,
      '{"id":17,"state":"open"}',
      true,
    ]);
  });

  test("RP-04 shows the current state if the option replay says so", async () => {
    const order = { id: 17, state: "open" };
    const service = await serve({
      handler: ({ res }) =>
        res.writeHead(201, { "Content-Type": "application/json" }).end(JSON.stringify(order)),
      options: {
        replay: current((_request, kept) => {
          const { id } = JSON.parse(Buffer.from(kept.body).toString("utf8"));
          return { status: 200, body: { id, state: order.state } };
        }),
      },
    });
    await service.send({ key: "k" });
    order.state = "shipped";
    const second = await service.send({ key: "k" });
    expect([second.status, second.json(), isReplayed(second)]).toEqual([
      200,
      { id: 17, state: "shipped" },
      "true",
    ]);
    expect(service.runs()).toBe(1);
  });

  test("RP-05 of an accepted job is still the 202, although the job has finished", async () => {
    const { first, second, service } = await twice(({ res, run }) =>
      res.writeHead(202, { Location: `/jobs/${run}` }).end(`{"job":${run}}`),
    );
    expect([second.status, second.header("location"), second.text]).toEqual([202, "/jobs/1", first.text]);
    expect(service.runs()).toBe(1);
  });

  test("RP-06 of a binary, an empty and a missing body has the same bytes and type", async () => {
    const every = Buffer.from(Array.from({ length: 512 }, (_, index) => index % 256));
    const binary = await twice(({ res }) => res.writeHead(200, { "Content-Type": "image/png" }).end(every));
    expect([binary.second.header("content-type"), binary.second.body.equals(every)]).toEqual([
      "image/png",
      true,
    ]);
    expect(binary.second.header("content-length")).toBe("512");

    const empty = await twice(({ res }) => res.writeHead(200, { "Content-Type": "text/plain" }).end());
    expect([empty.second.status, empty.second.header("content-type"), empty.second.body.length]).toEqual([
      200,
      "text/plain",
      0,
    ]);

    const none = await twice(({ res }) => res.writeHead(204).end());
    expect([none.second.status, none.second.body.length, isReplayed(none.second)]).toEqual([204, 0, "true"]);
    expect(none.second.header("content-length")).toBeUndefined();
    expect(none.service.runs()).toBe(1);
  });

  test("RP-07 repeats no header that belongs to one client, connection or moment", async () => {
    const longAgo = "Thu, 01 Jan 1970 00:00:00 GMT";
    const { first, second } = await twice(({ res }) => {
      res.setHeader("Set-Cookie", ["session=1", "theme=dark"]);
      res.setHeader("Date", longAgo);
      res.setHeader("Age", "10");
      res.setHeader("Proxy-Authenticate", "Basic");
      res.setHeader("WWW-Authenticate", "Basic");
      res.setHeader("Keep-Alive", "timeout=99");
      res.setHeader("Connection", "close");
      res.setHeader("Location", "/orders/1");
      res.setHeader("Link", ["</a>; rel=next", "</b>; rel=prev"]);
      res.setHeader("ETag", '"v1"');
      res.end("done");
    });
    const valuesOf = ({ lines }: Received, name: string) =>
      lines.filter(([line]) => line === name).map(([, value]) => value);
    expect(valuesOf(first, "set-cookie")).toEqual(["session=1", "theme=dark"]);
    for (const name of ["set-cookie", "age", "proxy-authenticate", "www-authenticate"])
      expect([name, valuesOf(second, name)]).toEqual([name, []]);
    expect(valuesOf(second, "keep-alive")).not.toContain("timeout=99");
    expect([first.header("date"), second.header("date")]).toEqual([
      longAgo,
      expect.not.stringMatching("1970"),
    ]);
    expect(Date.now() - Date.parse(second.header("date") ?? "")).toBeLessThan(600_000);
    expect([second.header("location"), second.header("etag")]).toEqual(["/orders/1", '"v1"']);
    expect(valuesOf(second, "link")).toEqual(["</a>; rel=next", "</b>; rel=prev"]);
  });

  test("RP-08 of an answer that was too large to keep has a marker, and nothing runs again", async () => {
    const large = "x".repeat(5_000);
    const { service, first, second } = await twice(
      ({ res }) => res.writeHead(201, { "Content-Type": "text/plain", Location: "/orders/1" }).end(large),
      { options: { maxOutcomeBytes: 2_000, onNotKept: "status" } },
    );
    expect([first.status, first.text]).toEqual([201, large]);
    expect([second.status, second.text, second.header("location")]).toEqual([201, "", "/orders/1"]);
    expect([second.header("nevertwice-outcome"), isReplayed(second)]).toEqual(["not-kept", "true"]);
    expect(service.runs()).toBe(1);
    const refused = await twice(({ res }) => res.writeHead(201).end(large), {
      options: { maxOutcomeBytes: 2_000 },
    });
    expect([refused.second.status, refused.second.json().code]).toEqual([409, "already-done"]);
    expect([refused.first.text, refused.service.runs()]).toEqual([large, 1]);
    // The limit counts the body that was sent, not what zeros take where they are stored.
    const zeros = "\0".repeat(1_500);
    const kept = await twice(({ res }) => res.writeHead(201, { Location: "/orders/1" }).end(zeros), {
      options: { maxOutcomeBytes: 2_000 },
    });
    expect([kept.first.text, kept.second.status, kept.second.text]).toEqual([zeros, 201, zeros]);
    expect([kept.second.header("nevertwice-outcome"), kept.service.runs()]).toEqual([undefined, 1]);
  });

  test("RP-09 of a streamed answer has never half of its body: the retry is refused", async () => {
    const door = gate();
    const service = await serve({
      handler: async ({ res }) => {
        res.writeHead(200, { "Content-Type": "text/event-stream" });
        res.write("data: first\n\n");
        await door.pass();
        res.end("data: last\n\n");
      },
    });
    const first = service.send({ key: "k" });
    await door.reached();
    // The key is completed from the first byte on, while the handler still writes.
    await service.happened("completed");
    const during = await service.send({ key: "k" });
    door.open();
    expect((await first).text).toBe("data: first\n\ndata: last\n\n");
    for (const answer of [during, await service.send({ key: "k" })]) {
      expect([answer.status, answer.json().code]).toEqual([409, "already-done"]);
      expect([isReplayed(answer), answer.header("x-should-retry")]).toEqual([undefined, "false"]);
    }
    expect(service.runs()).toBe(1);
  });

  test("RP-10 has no effect: it sends no mail and charges no card", async () => {
    const effects = { mails: 0, charges: 0 };
    const service = await serve({
      handler: ({ res }) => {
        effects.mails++;
        effects.charges++;
        res.end("charged");
      },
    });
    for (let i = 0; i < 5; i++) expect((await service.send({ key: "k" })).text).toBe("charged");
    expect(effects).toEqual({ mails: 1, charges: 1 });
  });
});
