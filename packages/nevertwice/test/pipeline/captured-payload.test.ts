import { describe, expect, it } from "vitest";
import { capturePayload } from "../../src/pipeline/captured-payload.ts";
import { createPipelineScene } from "./scene.ts";

describe("[capture]", () => {
  it("shows payloads in events without the redacted fields", async () => {
    const scene = createPipelineScene({
      nodes: { charge: { out: ["out"], capture: { maxBytes: 1_000, redact: ["card"] } } },
      in: { orders: "charge.in" },
    });
    await scene.settle(
      scene.pipeline.push("orders", { id: 1, card: "4242", nested: [{ card: { n: "4243" } }] }),
    );
    const text = '{"id":1,"card":"[redacted]","nested":[{"card":"[redacted]"}]}';
    expect(scene.events).toMatchObject([
      { kind: "entered" },
      { kind: "started", captured: { text, isCut: false } },
      { kind: "completed", captured: [{ text, isCut: false }] },
      { kind: "settled" },
    ]);
  });

  it("cuts at max_bytes, but never inside a character", () => {
    expect(capturePayload("äöü", { maxBytes: 4, redact: [] })).toEqual({ text: '"ä', isCut: true });
    expect(capturePayload({ a: 1 }, { maxBytes: 7, redact: [] })).toEqual({ text: '{"a":1}', isCut: false });
  });

  it("redacts before it cuts", () => {
    const { text } = capturePayload({ card: "4242424242" }, { maxBytes: 14, redact: ["card"] });
    expect(text).toBe('{"card":"[reda');
  });

  it("shows text for values that JSON cannot represent", () => {
    const capture = { maxBytes: 100, redact: [] };
    const circle: { self?: unknown } = {};
    circle.self = circle;
    expect(
      [circle, undefined, 1n, new Map([["a", 1]])].map((payload) => capturePayload(payload, capture).text),
    ).toEqual(["[not printable]", "undefined", '"1"', '[["a",1]]']);
  });
});
