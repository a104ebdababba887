/** Tests how large a response may be to be kept: of exchange.ts and replay.ts. */
import { randomBytes } from "node:crypto";
import { DatabaseSync } from "@photostructure/sqlite";
import { describe, expect, it } from "vitest";
import type { HttpOptions } from "../../src/http/options.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { scene } from "./profile-scene.ts";

const MIB = 1_048_576;

const BODIES: readonly [string, (bytes: number) => Uint8Array][] = [
  ["bytes", (size) => randomBytes(size)],
  ["text", (size) => Buffer.alloc(size, "grün ")],
  ["quotes and line breaks", (size) => Buffer.alloc(size, '"\n\\')],
  ["control characters", (size) => Buffer.alloc(size, "\u0001")],
  ["NULs", (size) => Buffer.alloc(size)],
];

describe.each([
  ["memory", () => memoryStore()],
  ["SQLite", () => sqliteStore({ database: new DatabaseSync(":memory:") })],
])("maxOutcomeBytes counts the bytes of the body: on %s", (_, open) => {
  let key = 0;
  /** Whether a second request gets the whole body, and how many bytes the first one got. */
  async function sendTwice(body: Uint8Array, options: Partial<HttpOptions<Request>> = {}) {
    const { send, answers } = scene(options, { store: open() });
    answers(() => new Response(Buffer.from(body), { headers: { "content-language": "en" } }));
    const headers = { "idempotency-key": `"${++key}"` };
    const first = Buffer.from(await (await send({ headers })).arrayBuffer());
    const replay = Buffer.from(await (await send({ headers })).arrayBuffer());
    return { sent: first.length, isKept: replay.length > 0 && replay.equals(first) };
  }

  it.each(BODIES)(
    "a body of exactly the limit is kept if it is %s, and one of a byte more is not",
    async (_kind, body) => {
      expect(await sendTwice(body(MIB))).toEqual({ sent: MIB, isKept: true });
      expect(await sendTwice(body(MIB + 1))).toEqual({ sent: MIB + 1, isKept: false });
    },
  );

  it("a limit of the route counts the same", async () => {
    expect((await sendTwice(randomBytes(3_000), { maxOutcomeBytes: 3_000 })).isKept).toBe(true);
    expect((await sendTwice(randomBytes(3_001), { maxOutcomeBytes: 3_000 })).isKept).toBe(false);
  });

  it("a redacted body that is larger than the limit is not kept", async () => {
    const redact = () => "x".repeat(3_001);
    const { isKept } = await sendTwice(randomBytes(3_000), { maxOutcomeBytes: 3_000, redact });
    expect(isKept).toBe(false);
  });
});
