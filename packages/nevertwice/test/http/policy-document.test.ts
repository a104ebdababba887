/** The published policy says what the layer does. */
import { describe, expect, it } from "vitest";
import { current, type HttpOptions, idempotencyPolicy } from "../../src/http/index.ts";
import { PROFILE_NAMES } from "../../src/http/profile-names.ts";
import { isReplayed } from "../../src/http/replay.ts";
import { createGuard, type GuardOptions } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { scene } from "./profile-scene.ts";
import { REPLAYED_HEADER } from "./replayed-header.ts";

function policyOf(options: Partial<HttpOptions<Request>> = {}, guardOptions: Partial<GuardOptions> = {}) {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0, ...guardOptions });
  return idempotencyPolicy(guard, { scope: "anyone", ...options });
}

describe("idempotencyPolicy", () => {
  it("IK-15 states key format, required operations, expiry window and fingerprint inputs", () => {
    expect(policyOf()).toEqual({
      version: 1,
      profile: "ietf",
      key: {
        in: "header",
        name: "Idempotency-Key",
        with: [],
        format: "string-or-bare",
        maxLength: 255,
        required: false,
        methods: ["POST", "PATCH"],
        operation: "method-and-path",
        scope: "anyone",
      },
      sameRequest: { compared: true, body: "json", leavesOut: [], adds: [], maxBodyBytes: 1_048_576 },
      retention: { ms: 86_400_000, duration: "P1D", from: "completion", expired: "run" },
      running: { lease: { ms: 30_000, duration: "PT30S" }, duplicate: "refused", lapsed: "takeover" },
      replay: {
        answer: "snapshot",
        markedBy: REPLAYED_HEADER,
        headers: ["Content-*", "ETag", "Last-Modified", "Link", "Location"],
        statuses: [
          { status: "2xx", outcome: "keep" },
          { status: "3xx", outcome: "keep" },
          { status: "4xx", outcome: "keep" },
          { status: "401", outcome: "release" },
          { status: "403", outcome: "release" },
          { status: "408", outcome: "release" },
          { status: "425", outcome: "release" },
          { status: "429", outcome: "release" },
          { status: "5xx", outcome: "release" },
        ],
        byAnswer: false,
      },
      errors: [
        { code: "key-invalid", status: 400, title: "Idempotency-Key is not valid", retry: false },
        {
          code: "fingerprint-invalid",
          status: 400,
          title: "The request cannot be fingerprinted",
          retry: false,
        },
        {
          code: "pending",
          status: 409,
          title: "A request is outstanding for this Idempotency-Key",
          retry: true,
          retryAfterSeconds: 1,
        },
        { code: "already-done", status: 409, title: "This request was carried out before", retry: false },
        { code: "body-too-large", status: 413, title: "The request body is too large", retry: false },
        { code: "conflict", status: 422, title: "Idempotency-Key is already used", retry: false },
        { code: "lease-lost", status: 500, title: "Another attempt took this request over", retry: true },
        {
          code: "not-kept",
          status: 500,
          title: "The request was carried out, but its answer was not kept",
          retry: false,
        },
        ...["unavailable", "store-full", "guard-closed"].map((code) => ({
          code,
          status: 503,
          title: expect.any(String),
          retry: true,
          retryAfterSeconds: 1,
        })),
      ],
    });
  });

  it("IK-15 follows every option that a client can notice", () => {
    const policy = policyOf(
      {
        scope: () => "customer-7",
        required: true,
        methods: ["POST"],
        operation: "charge",
        header: "X-Key",
        strict: true,
        maxKeyLength: 36,
        keyPattern: /^[0-9a-f-]{36}$/,
        maxBodyBytes: 100,
        fingerprint: { fields: ["amount"] },
        keep: { 402: "release", "5xx": "unknown" },
        replay: current(() => ({})),
        replayHeaders: ["X-Order"],
        replayedHeader: "X-Replayed",
        expired: "refuse",
        refuseMs: 1_000,
        authorize: () => true,
        quota: 5,
        onPending: "wait",
        waitMs: 2_000,
        onLapsed: "hold",
        retentionFrom: "claim",
        retentionMs: 7_200_000,
        leaseMs: 60_000,
      },
      { onFailure: () => "unknown" },
    );
    expect(policy.key).toEqual({
      in: "header",
      name: "X-Key",
      with: [],
      format: "string",
      maxLength: 36,
      pattern: "^[0-9a-f-]{36}$",
      required: true,
      methods: ["POST"],
      operation: "charge",
      scope: "caller",
    });
    expect(policy.sameRequest).toMatchObject({ body: "fields", fields: ["amount"], maxBodyBytes: 100 });
    expect(policy.retention).toEqual({
      ms: 7_200_000,
      duration: "PT2H",
      from: "claim",
      expired: "refuse",
      refusedFor: { ms: 1_000, duration: "PT1S" },
    });
    expect(policy.running).toEqual({
      lease: { ms: 60_000, duration: "PT1M" },
      duplicate: "waits",
      waits: { ms: 2_000, duration: "PT2S" },
      lapsed: "hold",
    });
    expect(policy.replay).toMatchObject({ answer: "current", markedBy: "X-Replayed", byAnswer: true });
    expect(policy.replay.headers).toContain("X-Order");
    expect(policy.replay.statuses).toContainEqual({ status: "402", outcome: "release" });
    expect(policy.replay.statuses).toContainEqual({ status: "5xx", outcome: "unknown" });
    expect(policy.errors.map(({ code }) => code)).toEqual(
      expect.arrayContaining(["key-missing", "not-authorized", "unknown", "expired", "quota-exceeded"]),
    );
  });

  it("describes options that compare nothing and refuse duplicates", () => {
    const policy = policyOf({ fingerprint: "none", onCompleted: "reject" });
    expect(policy.sameRequest).toMatchObject({ compared: false, body: "none" });
    expect(policy.replay.answer).toBe("refused");
    const codes = policy.errors.map(({ code }) => code);
    expect(codes).toContain("already-done");
    expect(codes).not.toContain("conflict");
    expect(codes).not.toContain("body-too-large");
  });

  it("names the carrier of the key if it is not a plain header", () => {
    expect(policyOf({ profile: "adcp" }).key).toMatchObject({
      in: "body",
      name: "idempotency_key",
      format: "text",
    });
    expect(policyOf({ profile: "adcp" }).sameRequest.leavesOut).toEqual([
      "idempotency_key",
      "context",
      "governance_context",
      "push_notification_config.authentication.credentials",
    ]);
    expect(policyOf({ profile: "oasis" }).key).toMatchObject({
      name: "Repeatability-Request-ID",
      with: ["Repeatability-First-Sent"],
    });
    expect(policyOf({ profile: "x402" })).toMatchObject({
      key: { name: "PAYMENT-SIGNATURE", pattern: "^[A-Za-z0-9_-]{16,128}$", maxLength: 128 },
      sameRequest: { adds: ["the payment itself, to the byte"] },
    });
  });

  it("lists errors with the codes and statuses of the profile", () => {
    const errors = (profile: HttpOptions<Request>["profile"]) =>
      policyOf({ profile }).errors.map(({ code, status }) => `${status} ${code}`);
    expect(errors("stripe-v1")).toEqual(
      expect.arrayContaining(["400 idempotency_error", "409 idempotency_key_in_use"]),
    );
    expect(errors("acp")).toEqual(
      expect.arrayContaining([
        "400 idempotency_key_required",
        "409 idempotency_in_flight",
        "422 idempotency_conflict",
      ]),
    );
    expect(errors("ucp")).toContain("409 idempotency_conflict");
    expect(errors("adcp")).toEqual(
      expect.arrayContaining(["400 INVALID_REQUEST", "409 IDEMPOTENCY_EXPIRED", "422 IDEMPOTENCY_CONFLICT"]),
    );
    expect(errors("oasis")).toEqual(
      expect.arrayContaining(["400 conflict", "412 expired", "501 key-invalid"]),
    );
  });

  it.each(PROFILE_NAMES)("is plain JSON, in one order, for %s", (profile) => {
    const policy = policyOf({ profile });
    expect(JSON.parse(JSON.stringify(policy))).toEqual(policy);
    expect(JSON.stringify(policyOf({ profile }))).toBe(JSON.stringify(policy));
    expect(Object.keys(policy)).toEqual([
      "version",
      "profile",
      "key",
      "sameRequest",
      "retention",
      "running",
      "replay",
      "errors",
    ]);
  });

  it("names exactly the headers that are replayed without being asked for", () => {
    const named = policyOf().replay.headers.filter((name) => !name.endsWith("*"));
    expect(named.every((name) => isReplayed(name.toLowerCase(), new Set()))).toBe(true);
    const common = [
      "age",
      "allow",
      "cache-control",
      "date",
      "expires",
      "retry-after",
      "server",
      "set-cookie",
      "vary",
    ];
    const others = [
      "accept-ranges",
      "alt-svc",
      "pragma",
      "refresh",
      "x-request-id",
      "access-control-allow-origin",
    ];
    for (const name of [...common, ...others]) expect(isReplayed(name, new Set())).toBe(false);
    expect(isReplayed("content-disposition", new Set())).toBe(true);
  });

  it.each([200, 301, 402, 404, 409, 429, 500, 503])("describes what happens after a %i", async (status) => {
    const options = { keep: { 402: "release", 409: "release", 503: "keep" } } as const;
    const { send, answers, runs } = scene(options);
    answers(() => new Response(null, { status }));
    await send({ headers: { "idempotency-key": "k-1" } });
    await send({ headers: { "idempotency-key": "k-1" } });
    const { statuses } = policyOf(options).replay;
    const said =
      statuses.find((row) => row.status === String(status)) ??
      statuses.find((row) => row.status === `${String(status)[0]}xx`);
    expect(said?.outcome).toBe(runs() === 1 ? "keep" : "release");
  });

  it("refuses options that the adapter would refuse", () => {
    expect(() => policyOf({ profile: "oasis", retentionMs: 1 })).toThrow("the profile oasis");
    expect(() => policyOf({ unheardOf: true } as object)).toThrow("unheardOf");
  });
});
