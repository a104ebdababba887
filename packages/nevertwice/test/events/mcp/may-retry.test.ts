/** Which calls a client may repeat. */
import type { Tool } from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";
import { mayRetry } from "../../../src/events/mcp.ts";
import { connect, shop } from "../mcp-scene.ts";

function tool(annotations?: Tool["annotations"], properties: Record<string, object> = {}): Tool {
  return {
    name: "charge",
    inputSchema: { type: "object", properties },
    ...(annotations === undefined ? {} : { annotations }),
  } as Tool;
}

describe("mayRetry", () => {
  it.each([true, false, undefined])(
    "AG-12 is false for a tool without annotations, trusted: %s",
    (trusted) => {
      expect(mayRetry(tool(), { trusted })).toBe(false);
      expect(mayRetry(tool({}), { trusted })).toBe(false);
      expect(mayRetry(tool({ destructiveHint: false, openWorldHint: false }), { trusted })).toBe(false);
    },
  );

  it.each([{ idempotentHint: true }, { readOnlyHint: true }])(
    "AG-13 ignores %o of a server that is not trusted",
    (annotations) => {
      expect(mayRetry(tool(annotations))).toBe(false);
      expect(mayRetry(tool(annotations), { trusted: false })).toBe(false);
      expect(mayRetry(tool(annotations), { trusted: true })).toBe(true);
    },
  );

  it("is true for a call with the key that a trusted tool declares, and for no other", () => {
    const keyed = tool({}, { idempotency_key: { type: "string" } });
    const args = { idempotency_key: "k" };
    expect(mayRetry(keyed, { trusted: true, arguments: args })).toBe(true);
    expect(mayRetry(keyed, { trusted: false, arguments: args })).toBe(false);
    expect(mayRetry(keyed, { trusted: true })).toBe(false);
    expect(mayRetry(keyed, { trusted: true, arguments: { idempotency_key: "" } })).toBe(false);
    expect(mayRetry(tool(), { trusted: true, arguments: args })).toBe(false);
  });

  it("accepts the idempotentHint of an idempotentTool, as a server lists it", async () => {
    const { server } = shop({ key: { argument: "idempotency_key" } });
    const { tools } = await (await connect(server())).listTools();
    expect(tools.map((listed) => mayRetry(listed, { trusted: true }))).toEqual([true]);
    expect(tools.map((listed) => mayRetry(listed))).toEqual([false]);
  });
});
