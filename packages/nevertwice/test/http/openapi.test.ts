/** The OpenAPI fragments fit into a description, and the layer's real answers fit the fragments. */
import { describe, expect, it } from "vitest";
import { type HttpOptions, idempotencyPolicy, openapiFragments } from "../../src/http/index.ts";
import { PROFILE_NAMES } from "../../src/http/profile-names.ts";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore } from "../../src/testing/faulty-store.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { schemaProblems } from "./json-schema.ts";
import { openapiProblems } from "./openapi-document.ts";
import { type Sent, scene } from "./profile-scene.ts";

type Options = Partial<HttpOptions<Request>>;

const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });

function fragmentsOf(options: Options = {}) {
  return openapiFragments(guard, { scope: "anyone", ...options });
}

function headerSchema(options: Options = {}): object {
  return fragmentsOf(options).parameters[0]?.schema ?? {};
}

describe("openapiFragments", () => {
  it.each(PROFILE_NAMES)("fits into an OpenAPI 3.1 description, for %s", (profile) => {
    const fragments = fragmentsOf({ profile });
    const document = {
      openapi: "3.1.0",
      info: { title: "orders", version: "1" },
      paths: {
        "/orders": {
          post: {
            parameters: fragments.parameters,
            requestBody: {
              content: {
                "application/json": {
                  schema: { allOf: [fragments.requestSchema ?? {}, { type: "object" }] },
                },
              },
            },
            responses: {
              201: { description: "The order.", headers: fragments.headers },
              ...fragments.responses,
            },
          },
        },
      },
    };
    expect(openapiProblems(JSON.parse(JSON.stringify(document)))).toEqual([]);
  });

  it("can fail: an invalid description is noticed", () => {
    const responses = { 400: { headers: {}, content: { json: { schema: { pattern: "(" } } } } };
    const parameters = [{ name: "Accept", in: "header", schema: { enum: [] } }];
    const paths = { "/orders": { post: { parameters, responses } } };
    expect(openapiProblems({ openapi: "3.1.0", info: { title: "orders", version: "1" }, paths })).toEqual([
      "document.paths./orders.post.parameters[0].name is no name of a parameter",
      "document.paths./orders.post.parameters[0].schema.enum is empty",
      "document.paths./orders.post.responses.400 lacks description",
      "document.paths./orders.post.responses.400.content has json",
      "document.paths./orders.post.responses.400.content.json.schema.pattern is none",
    ]);
  });

  it("describes the header of the key", () => {
    expect(fragmentsOf({ required: true }).parameters).toEqual([
      {
        name: "Idempotency-Key",
        in: "header",
        description: expect.stringContaining("up to 255 characters"),
        required: true,
        schema: { type: "string", minLength: 1, maxLength: 512, pattern: expect.any(String) },
      },
    ]);
    expect(fragmentsOf().parameters[0]?.required).toBe(false);
    expect(fragmentsOf({ header: "X-Key" }).parameters[0]?.name).toBe("X-Key");
  });

  const UUID = "8e03978e-40d5-43e8-bc93-6894a57f9324";
  const isUuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
  it.each<[string, Options]>([
    ["by default", {}],
    ["strictly", { strict: true }],
    ["with a form", { keyPattern: isUuid }],
    ["strictly with a form", { keyPattern: isUuid, strict: true, maxKeyLength: 36 }],
    ["with a form that is no whole one", { keyPattern: /^8e/ }],
    ["with a form of two branches", { keyPattern: /^8e|x$/ }],
    ["with a form that says flags", { keyPattern: /^[0-9A-F-]{36}$/i }],
  ])("accepts every value of the header that the layer accepts, %s", async (_how, options) => {
    const values = [
      UUID,
      `"${UUID}"`,
      `"${UUID}";v=1`,
      "k",
      '"k"',
      '"a\\"b\\\\c"',
      '"with space"',
      "x".repeat(255),
      `"${"x".repeat(255)}"`,
      `"${'\\"'.repeat(255)}"`,
    ];
    let taken = 0;
    for (const value of values) {
      const { status } = await scene(options).send({ headers: { "idempotency-key": value } });
      if (status !== 201) continue;
      taken++;
      expect(schemaProblems(headerSchema(options), value)).toEqual([]);
    }
    expect(taken).toBeGreaterThan(0);
  });

  it.each<[Options, string]>([
    [{}, ""],
    [{}, "two keys"],
    [{}, "a, b"],
    [{}, '"open'],
    [{}, "x".repeat(256)],
    [{}, `"${"x".repeat(256)}"`],
    [{ strict: true }, UUID],
    [{ keyPattern: isUuid }, "k"],
    [{ keyPattern: isUuid, strict: true }, '"k"'],
  ])("with %o refuses a value that the layer refuses: %j", async (options, value) => {
    const { status } = await scene(options).send({ headers: { "idempotency-key": value } });
    expect(status).toBe(400);
    expect(schemaProblems(headerSchema(options), value)).not.toEqual([]);
  });

  it("describes a key in the body, a payment that carries an id, and headers that are required together", () => {
    const { parameters, requestSchema } = fragmentsOf({ profile: "adcp" });
    expect(parameters).toEqual([]);
    expect(requestSchema).toEqual({
      type: "object",
      properties: {
        idempotency_key: {
          type: "string",
          minLength: 1,
          maxLength: 255,
          pattern: "^[A-Za-z0-9_.:-]{16,255}$",
        },
      },
      required: ["idempotency_key"],
    });
    const [payment] = fragmentsOf({ profile: "x402", required: true }).parameters;
    const id = (value: string) => ({ extensions: { "payment-identifier": { info: { id: value } } } });
    expect(payment).toMatchObject({ name: "PAYMENT-SIGNATURE", required: false });
    const { contentSchema = {} } = (payment?.schema ?? {}) as { contentSchema?: object };
    expect(schemaProblems(contentSchema, id("x".repeat(16)))).toEqual([]);
    expect(schemaProblems(contentSchema, id("x".repeat(15)))).not.toEqual([]);
    expect(schemaProblems(contentSchema, {})).not.toEqual([]);
    const [requestId, firstSent] = fragmentsOf({ profile: "oasis" }).parameters;
    expect(requestId?.name).toBe("Repeatability-Request-ID");
    expect(firstSent?.name).toBe("Repeatability-First-Sent");
    expect(schemaProblems(firstSent?.schema ?? {}, new Date(0).toUTCString())).toEqual([]);
    expect(schemaProblems(firstSent?.schema ?? {}, new Date(0).toISOString())).not.toEqual([]);
  });

  it.each(PROFILE_NAMES)("describes every response that the layer of %s sends itself", async (profile) => {
    const options: Options = { profile, required: true, maxBodyBytes: 200, quota: 3, authorize: isAllowed };
    const { responses, headers } = fragmentsOf(options);
    const { errors } = idempotencyPolicy(guard, { scope: "anyone", ...options });
    const seen = new Set<number>();
    for await (const answer of everyAnswer(options)) {
      if (answer.status === 201) {
        const added = [...answer.headers.keys()].filter(
          (name) => !["content-type", "cache-control"].includes(name),
        );
        expect(Object.keys(headers).map((name) => name.toLowerCase())).toEqual(expect.arrayContaining(added));
        continue;
      }
      seen.add(answer.status);
      const response = responses[answer.status];
      const type = answer.headers.get("content-type") ?? "";
      const body: unknown = await answer.json();
      expect(schemaProblems(response?.content[type]?.schema ?? { const: "described" }, body)).toEqual([]);
      const described = Object.keys(response?.headers ?? {}).map((name) => name.toLowerCase());
      const isRetried = answer.headers.has("retry-after");
      expect(described.includes("retry-after") || !isRetried).toBe(true);
      expect(
        errors.some(({ code, status }) => status === answer.status && JSON.stringify(body).includes(code)),
      ).toBe(true);
    }
    expect(seen.size).toBeGreaterThanOrEqual(4);
  });
});

function isAllowed(request: Request): boolean {
  return !request.headers.has("x-stranger");
}

const KEYS = ["8e03978e-40d5-43e8-bc93-6894a57f9324", "0b0c8b7e-40d5-43e8-bc93-6894a57f9324"];

/** One request with a key, as each profile expects it. */
function keyed(
  profile: Options["profile"],
  key: string | undefined,
  amount: number | string,
  stranger = false,
): Sent {
  const headers: Record<string, string> = stranger ? { "x-stranger": "yes" } : {};
  if (profile === "adcp") return { headers, body: { idempotency_key: key, amount } };
  if (profile === "x402") {
    const extensions = key === undefined ? {} : { "payment-identifier": { info: { id: key } } };
    headers["payment-signature"] = Buffer.from(JSON.stringify({ extensions })).toString("base64");
  } else if (profile === "oasis" && key !== undefined) {
    headers["repeatability-request-id"] = key;
    headers["repeatability-first-sent"] = new Date(manualClock().now()).toUTCString();
  } else if (key !== undefined) headers["idempotency-key"] = key;
  return { headers, body: { amount } };
}

/** Requests that cause every kind of response: no key, bad keys, another owner, a first answer, a replay, a conflict, a long body, an outage. */
async function* everyAnswer(options: Options): AsyncGenerator<Response> {
  const { profile } = options;
  const [first, second] = KEYS;
  const { send } = scene(options);
  yield send(keyed(profile, undefined, 5));
  yield send(keyed(profile, "a b", 5));
  yield send(keyed(profile, first, 5, true));
  yield send(keyed(profile, first, 5));
  yield send(keyed(profile, first, 5));
  yield send(keyed(profile, first, 6));
  yield send(keyed(profile, second, "x".repeat(300)));
  const full = scene({ ...options, quota: 1 });
  yield full.send(keyed(profile, first, 5));
  yield full.send(keyed(profile, second, 5));
  const down = scene(options, {
    store: faultyStore(memoryStore(), { rates: { refuse: 1 } }),
    storeTimeoutMs: 50,
  });
  yield down.send(keyed(profile, first, 5));
}

it("describes the keys without quotes that the Stripe profiles accept", () => {
  const schemaOf = (options: Options) =>
    fragmentsOf(options).parameters[0]?.schema as { readonly pattern: string };
  const stripe = new RegExp(schemaOf({ profile: "stripe-v1" }).pattern);
  const others = new RegExp(schemaOf({}).pattern);
  for (const key of ["order 5", 'say "hi"', "bestellung-\u00e4"]) {
    expect(stripe.test(key)).toBe(true);
    expect(others.test(key)).toBe(false);
  }
  for (const key of ["a,b", '"a', "a\u0001b"]) expect(stripe.test(key)).toBe(false);
});
