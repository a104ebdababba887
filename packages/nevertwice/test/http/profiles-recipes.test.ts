/** Tests services that need no profile, only options. docs/profiles.md shows the same recipes. */
import { describe, expect, it } from "vitest";
import { current } from "../../src/http/current-replay.ts";
import { DAY_MS, scene } from "./profile-scene.ts";

const KEY = { "idempotency-key": "8e03978e-40d5-43e8-bc93-6894a57f9324" };

describe("an Adyen-style service", () => {
  const adyen = () =>
    scene({
      maxKeyLength: 64,
      retentionMs: 7 * DAY_MS,
      keep: (response) => (response.header("transient-error") === "true" ? "release" : "keep"),
    });

  it("AY-01 does not keep an answer with transient-error: true, so that the same key runs again", async () => {
    const { send, answers, runs } = adyen();
    answers(() => new Response(null, { status: 422, headers: { "transient-error": "true" } }));
    await send({ headers: KEY });
    answers(() => Response.json({ pspReference: "993617895215577D" }));
    expect(await (await send({ headers: KEY })).json()).toEqual({ pspReference: "993617895215577D" });
    expect(runs()).toBe(2);
  });

  it.each([{}, { "transient-error": "false" }])("AY-02 keeps an error with %o as final", async (headers) => {
    const { send, answers, runs } = adyen();
    answers(() => new Response("declined", { status: 500, headers }));
    await send({ headers: KEY });
    const replay = await send({ headers: KEY });
    expect(replay.status).toBe(500);
    expect(await replay.text()).toBe("declined");
    expect(runs()).toBe(1);
  });
});

describe("a GoCardless-style service", () => {
  it("GC-01 answers the repeat of a create with 409 and the id of what exists", async () => {
    const { send, answers, runs } = scene({
      keep: { "4xx": "release" },
      replay: current((_request, kept) => {
        const { id } = JSON.parse(Buffer.from(kept.body).toString()) as { id: string };
        const links = { conflicting_resource_id: id };
        const errors = [{ reason: "idempotent_creation_conflict", links }];
        return { status: 409, body: { error: { type: "invalid_state", code: 409, errors } } };
      }),
    });
    answers(() => Response.json({ id: "PM123" }, { status: 201 }));
    expect((await send({ headers: KEY })).status).toBe(201);
    const repeat = await send({ headers: KEY });
    expect(repeat.status).toBe(409);
    expect(repeat.headers.has("retry-after")).toBe(false);
    expect(await repeat.json()).toMatchObject({
      error: { errors: [{ links: { conflicting_resource_id: "PM123" } }] },
    });
    expect(runs()).toBe(1);
  });
});
