/** Rules for all profiles: given options override them, and docs/profiles.md describes each. */
import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { type HttpOptions, idempotencyPolicy, type ProfileName } from "../../src/http/index.ts";
import { PROFILE_NAMES } from "../../src/http/profile-names.ts";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { DAY_MS, scene } from "./profile-scene.ts";

const KEY = { "idempotency-key": "8e03978e-40d5-43e8-bc93-6894a57f9324" };

describe("a single option", () => {
  it("overrides the profile", async () => {
    const { send, clock, runs } = scene({
      profile: "stripe-v1",
      methods: ["PUT"],
      operation: (request) => new URL(request.url).pathname,
      onFailure: "release",
      retentionMs: 2 * DAY_MS,
    });
    await send({ headers: KEY });
    await send({ headers: KEY });
    expect(runs()).toBe(2);
    await send({ method: "PUT", headers: KEY });
    clock.advance(DAY_MS);
    await send({ method: "PUT", headers: KEY });
    expect(runs()).toBe(3);
    await send({ method: "PUT", headers: KEY, path: "/elsewhere" });
    expect(runs()).toBe(4);
  });

  it("that is undefined does not override the profile", async () => {
    const { send } = scene({ profile: "acp", required: undefined, methods: undefined });
    expect((await send()).status).toBe(400);
  });

  it("can move the key of a profile", async () => {
    const { send, runs } = scene({ profile: "adcp", keyField: "request_id", keyPattern: /^r\d+$/ });
    await send({ body: { request_id: "r1", budget: 5 } });
    expect(await (await send({ body: { request_id: "r1", budget: 5 } })).json()).toEqual({
      replayed: true,
      id: 1,
    });
    expect(runs()).toBe(1);
  });

  it("can name another header for the payment, or for the id of a repeatable request", async () => {
    const paying = scene({ profile: "x402", header: "X-PAYMENT" });
    const id = "pay_7d5d747be160e280504c099d984bcfe0";
    const payment = JSON.stringify({ extensions: { "payment-identifier": { info: { id } } } });
    const headers = { "x-payment": Buffer.from(payment).toString("base64") };
    await paying.send({ headers });
    await paying.send({ headers });
    expect(paying.runs()).toBe(1);

    const repeating = scene({ profile: "oasis", header: "X-Id" });
    const sent = { "x-id": id, "repeatability-first-sent": new Date(repeating.clock.now()).toUTCString() };
    await repeating.send({ headers: sent });
    await repeating.send({ headers: sent });
    expect(repeating.runs()).toBe(1);
  });
});

it("allows no header to other origins if the key is in the body", async () => {
  const { send, answers } = scene({ profile: "adcp" });
  answers(() => new Response(null, { status: 204 }));
  const headers = { origin: "https://shop.test", "access-control-request-method": "POST" };
  const preflight = await send({ method: "OPTIONS", headers });
  expect(preflight.headers.has("access-control-allow-headers")).toBe(false);
});

it("refuses an unknown profile", () => {
  expect(() => scene({ profile: "stripe" as ProfileName })).toThrow("profile is");
});

describe("docs/profiles.md", () => {
  it("has a row for every profile that agrees with the code", async () => {
    const page = await readFile(new URL("../../../../docs/profiles.md", import.meta.url), "utf8");
    const [table = ""] = page.split("\n## ");
    const rows = table.split("\n").filter((line) => /^\| `[\w-]+` \|/.test(line));
    expect(rows).toEqual(PROFILE_NAMES.map(rowOf));
  });
});

/** | profile | key | on | kept for | same body | kept answers | conflict | pending | */
function rowOf(profile: ProfileName): string {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  const options: HttpOptions<Request> = { scope: "anyone", profile };
  const { key, sameRequest, retention, running, replay, errors } = idempotencyPolicy(guard, options);
  const carrier = `${key.in === "body" ? "member " : ""}${[key.name, ...key.with].map(code).join(", ")}`;
  const expired = retention.expired === "refuse" ? ", then refused" : "";
  const cells = [
    code(profile),
    `${carrier}${key.required ? ", required" : ""}`,
    key.methods.join(" "),
    key.operation === "method-and-path" ? "another key" : "a conflict",
    `${code(retention.duration)}${expired}`,
    sameRequest.body === "raw" ? "the bytes" : sameRequest.adds.length > 0 ? "JSON, and the payment" : "JSON",
    keptOf(replay.statuses),
    errorCell(errors, ["conflict", "idempotency_error", "idempotency_conflict", "IDEMPOTENCY_CONFLICT"]),
    (running.duplicate === "waits" ? "waits, then " : "") +
      errorCell(errors, [
        "pending",
        "idempotency_key_in_use",
        "idempotency_in_flight",
        "IDEMPOTENCY_IN_FLIGHT",
      ]),
  ];
  return `| ${cells.join(" | ")} |`;
}

function code(text: string): string {
  return `\`${text}\``;
}

function keptOf(statuses: readonly { readonly status: string; readonly outcome: string }[]): string {
  const kept = statuses.filter(({ status, outcome }) => status.endsWith("xx") && outcome === "keep");
  const not = statuses.filter(({ status, outcome }) => !status.endsWith("xx") && outcome !== "keep");
  const but = not.map(({ status }) => status).join(" ");
  return `${kept.map(({ status }) => status).join(" ")}${but === "" ? "" : `, but ${but}`}`;
}

function errorCell(
  errors: readonly { readonly code: string; readonly status: number }[],
  codes: readonly string[],
): string {
  const error = errors.find((candidate) => codes.includes(candidate.code));
  return error === undefined ? "none" : `${error.status} ${code(error.code)}`;
}
