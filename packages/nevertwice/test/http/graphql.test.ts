/** Tests the GraphQL plugins on the real servers, with Apollo's client and with `fetch`, over HTTP. */
import {
  ApolloClient,
  ApolloLink,
  CombinedGraphQLErrors,
  gql,
  HttpLink,
  InMemoryCache,
} from "@apollo/client";
import { afterEach, describe, expect, it } from "vitest";
import type { GraphqlOptions } from "../../src/http/graphql.ts";
import { deferred } from "../deferred.ts";
import { type Service, startApollo, startYoga } from "./graphql/servers.ts";
import { REPLAYED } from "./replayed-header.ts";

const PAY = "mutation Pay($amount: Int!) { pay(amount: $amount) { id receipt note } }";

interface Told {
  readonly data: unknown;
  /** The codes of the errors, or their messages. */
  readonly errors: readonly string[];
}

let service: Service | undefined;
afterEach(() => service?.close());

describe.each([
  ["GraphQL Yoga", startYoga],
  ["Apollo Server", startApollo],
])("%s", (name, start) => {
  const serve = async (options: Partial<GraphqlOptions<object>> = {}) => {
    service = await start(options);
    return service;
  };

  /** One call of Apollo's client. */
  async function call(
    { url }: Service,
    key: string | undefined,
    query: string,
    variables = {},
  ): Promise<Told> {
    const client = new ApolloClient({
      link: ApolloLink.from([new HttpLink({ uri: url })]),
      cache: new InMemoryCache(),
    });
    const { data, error } = await client.mutate({
      mutation: gql(query),
      variables,
      errorPolicy: "all",
      fetchPolicy: "no-cache",
      context: { headers: key === undefined ? {} : { "idempotency-key": key } },
    });
    // Anything else would be an error of the network, after which clients send again.
    if (error !== undefined && !CombinedGraphQLErrors.is(error)) throw error;
    const told = error?.errors.map(({ message, extensions }) => {
      const code = String(extensions?.code ?? "");
      return code.startsWith("IDEMPOTENCY") ? code : message;
    });
    return { data: data ?? null, errors: told ?? [] };
  }

  const post = ({ url }: Service, key: string, body: unknown, headers = {}) =>
    fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": key, ...headers },
      body: JSON.stringify(body),
    });

  it("runs a mutation once, and replays its result byte for byte", async () => {
    const running = await serve();
    const body = { query: PAY, variables: { amount: 5 } };
    const first = await post(running, "k1", body);
    const again = await post(running, "k1", body);
    expect(first.headers.get(REPLAYED)).toBeNull();
    expect([again.status, again.headers.get(REPLAYED)]).toEqual([first.status, "true"]);
    expect(await again.text()).toBe(await first.text());
    expect(running.effects).toEqual(["pay 5"]);
  });

  it("answers Apollo's client with the same data again", async () => {
    const running = await serve();
    const first = await call(running, "k1", PAY, { amount: 5 });
    expect(first).toEqual({
      data: { pay: { __typename: "Payment", id: "payment 1", receipt: "paid", note: "thanks" } },
      errors: [],
    });
    expect(await call(running, "k1", PAY, { amount: 5 })).toEqual(first);
    expect(running.effects).toEqual(["pay 5"]);
  });

  it("refuses the key of another request, without an effect", async () => {
    const running = await serve();
    await call(running, "k1", PAY, { amount: 5 });
    expect(await call(running, "k1", PAY, { amount: 6 })).toEqual({
      data: null,
      errors: ["IDEMPOTENCY_CONFLICT"],
    });
    const refused = await post(running, "k1", { query: PAY, variables: { amount: 6 } });
    expect(refused.status).toBe(422);
    const { errors } = (await refused.json()) as { errors: readonly { extensions: object }[] };
    expect(errors[0]?.extensions).toMatchObject({
      code: "IDEMPOTENCY_CONFLICT",
      problem: { code: "conflict", retryable: false },
    });
    expect(running.effects).toEqual(["pay 5"]);
  });

  it.each([
    ["returns an error", true, () => ({ message: "sold twice", extensions: { code: "OWN" } })],
    ["returns nothing", false, () => undefined],
    ["returns something else", false, () => ({ body: "own" }) as never],
    [
      "throws",
      false,
      () => {
        throw new Error("broken");
      },
    ],
  ])("sends the application's own form of a refusal if its function %s", async (_, isOwn, form) => {
    const seen: unknown[] = [];
    const refusal: NonNullable<GraphqlOptions<object>["refusal"]> = ({ code }, { fields }) => {
      seen.push([code, fields]);
      return form();
    };
    const running = await serve({ refusal, required: true });
    const missing = await fetch(running.url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query: PAY, variables: { amount: 5 } }),
    });
    await post(running, "k1", { query: PAY, variables: { amount: 5 } });
    const conflict = await post(running, "k1", { query: PAY, variables: { amount: 6 } });
    for (const [refused, status, code] of [
      [missing, 400, "KEY_MISSING"],
      [conflict, 422, "CONFLICT"],
    ] as const) {
      expect([refused.status, refused.headers.get("x-should-retry")]).toEqual([status, "false"]);
      const { errors } = (await refused.json()) as { errors: readonly object[] };
      expect(errors).toMatchObject(
        isOwn
          ? [{ message: "sold twice", extensions: { code: "OWN" } }]
          : [{ extensions: { code: `IDEMPOTENCY_${code}` } }],
      );
    }
    expect(seen).toEqual([
      ["key-missing", ["pay"]],
      ["conflict", ["pay"]],
    ]);
    expect(running.effects).toEqual(["pay 5"]);
  });

  it("refuses a duplicate while the first runs, and says when to come back", async () => {
    const running = await serve();
    const [began, finish] = [deferred(), deferred()];
    running.script.before = () => {
      began.resolve();
      return finish.promise;
    };
    const body = { query: PAY, variables: { amount: 5 } };
    const first = post(running, "k1", body);
    await began.promise;
    const pending = await post(running, "k1", body);
    expect([pending.status, pending.headers.get("retry-after")]).toEqual([409, "1"]);
    finish.resolve();
    expect((await first).status).toBe(200);
    expect(running.effects).toEqual(["pay 5"]);
  });

  it("lets a duplicate wait if it is told to", async () => {
    const running = await serve({ onPending: "wait" });
    const [began, finish] = [deferred(), deferred()];
    running.script.before = () => {
      began.resolve();
      return finish.promise;
    };
    const first = call(running, "k1", PAY, { amount: 5 });
    await began.promise;
    const second = call(running, "k1", PAY, { amount: 5 });
    finish.resolve();
    expect(await second).toEqual(await first);
    expect(running.effects).toEqual(["pay 5"]);
  });

  it("refuses a mutation without a key if one is required", async () => {
    const running = await serve({ required: true });
    expect(await call(running, undefined, PAY, { amount: 5 })).toEqual({
      data: null,
      errors: ["IDEMPOTENCY_KEY_MISSING"],
    });
    expect(running.effects).toEqual([]);
    expect(await call(await serve(), undefined, PAY, { amount: 5 })).toMatchObject({ errors: [] });
  });

  it("takes the key from the variables if it is told to", async () => {
    const running = await serve({ key: ({ variables }) => String(variables.id), required: true });
    const ship = "mutation ($id: ID!) { ship(id: $id) }";
    for (const _ of [1, 2])
      expect((await call(running, undefined, ship, { id: "o-1" })).data).toEqual({ ship: true });
    expect(running.effects).toEqual(["ship o-1"]);
  });

  it("hands the attempt to the resolvers", async () => {
    const running = await serve();
    const { data } = await call(running, "k1", "mutation { attempt }");
    expect((data as { attempt: string }).attempt).toMatch(/^[\w-]{43}$/);
    expect((await call(running, undefined, "mutation { attempt }")).data).toEqual({ attempt: null });
  });

  it("releases the key if the resolver of the only root field threw", async () => {
    const running = await serve();
    running.script.before = () => {
      throw new Error("the database is away");
    };
    expect(await call(running, "k1", PAY, { amount: 5 })).toEqual({
      data: null,
      errors: ["Unexpected error."],
    });
    running.script.before = () => {};
    expect((await call(running, "k1", PAY, { amount: 5 })).errors).toEqual([]);
    expect(running.effects).toEqual(["pay 5"]);
  });

  it("keeps what the resolver of the only root field threw under onFailure: remember, without its message", async () => {
    const running = await serve({ onFailure: "remember" });
    running.script.before = () => {
      throw new Error("password=secret");
    };
    const first = await call(running, "k1", PAY, { amount: 5 });
    running.script.before = () => {};
    expect(first.errors).toEqual(["Unexpected error."]);
    expect(await call(running, "k1", PAY, { amount: 5 })).toEqual(first);
    expect(running.effects).toEqual([]);
  });

  it("releases the key if the root field is in a fragment", async () => {
    const running = await serve();
    const query = 'mutation { ...Ship } fragment Ship on Mutation { __typename ship(id: "none") }';
    for (const _ of [1, 2]) expect((await call(running, "k1", query)).errors).toEqual(["no such order"]);
    expect(running.effects).toEqual(["ship none", "ship none"]);
  });

  it.each<[string, string, (script: Service["script"]) => void]>([
    [
      "a nested error",
      PAY,
      (script) => {
        script.note = () => {
          throw new Error("no notes");
        };
      },
    ],
    [
      "data: null that a nested error has bubbled to",
      PAY,
      (script) => {
        script.receipt = () => {
          throw new Error("no receipts");
        };
      },
    ],
    [
      "data: null that a nested null has bubbled to",
      PAY,
      (script) => {
        script.receipt = () => null;
      },
    ],
    ["null of a root field that must not be null", "mutation { missing { id } }", () => {}],
    ["a root value that cannot be serialized", "mutation { confirm }", () => {}],
    [
      "an error of one of several root fields",
      'mutation { pay(amount: 5) { id } ship(id: "none") }',
      () => {},
    ],
    [
      "an error of the first of several root fields",
      'mutation { a: ship(id: "none") b: ship(id: "o-1") }',
      () => {},
    ],
  ])("keeps %s, since it comes after an effect", async (_case, query, prepare) => {
    const running = await serve();
    prepare(running.script);
    const variables = query === PAY ? { amount: 5 } : {};
    const first = await call(running, "k1", query, variables);
    expect(first.errors.length).toBe(1);
    const effects = [...running.effects];
    expect(effects.length).toBeGreaterThan(0);
    expect(await call(running, "k1", query, variables)).toEqual(first);
    expect(running.effects).toEqual(effects);
  });

  it("lets each operation of a batch stand alone", async () => {
    const running = await serve();
    const batch = [
      { query: PAY, variables: { amount: 5 } },
      { query: 'mutation { ship(id: "none") }' },
      { query: "{ runs }" },
    ];
    const read = async () => (await (await post(running, "k1", batch)).json()) as readonly object[];
    const first = await read();
    const again = await read();
    expect(first).toMatchObject([
      { data: { pay: {} } },
      { errors: [{ message: "no such order" }] },
      { data: {} },
    ]);
    expect(again.slice(0, 2)).toEqual(first.slice(0, 2));
    expect([...running.effects].sort()).toEqual(["pay 5", "ship none", "ship none"]);
  });

  it("releases the key if the server failed before a resolver was called", async () => {
    const running = await serve();
    const body = { query: PAY, variables: { amount: 5 } };
    const crashed = await (await post(running, "k1", body, { "x-crash": "1" })).text();
    expect(crashed).toContain("errors");
    await post(running, "k1", { query: PAY, variables: { amount: "five" } });
    expect((await call(running, "k1", PAY, { amount: 5 })).errors).toEqual([]);
    expect(running.effects).toEqual(["pay 5"]);
  });

  it("does not touch queries", async () => {
    const running = await serve({ required: true });
    const read = async () => await (await post(running, "k1", { query: "{ runs }" })).json();
    expect(await read()).toEqual({ data: { runs: 0 } });
    await call(running, "k2", PAY, { amount: 5 });
    expect(await read()).toEqual({ data: { runs: 1 } });
  });

  it("keeps nothing of a request that was never executed", async () => {
    const running = await serve();
    await post(running, "k1", { query: "mutation { unknown }" });
    await post(running, "k1", { query: "mutation {" });
    expect(await call(running, "k1", PAY, { amount: 5 })).toMatchObject({ errors: [] });
  });

  if (name === "GraphQL Yoga")
    it("sends a result in parts as it is, and refuses its duplicate", async () => {
      const running = await serve();
      const body = { query: PAY, variables: { amount: 5 } };
      const headers = { accept: "text/event-stream", "x-stream": "1", origin: "https://shop.example" };
      expect(await (await post(running, "k1", body, headers)).text()).toContain('"id":"payment 1"');
      expect(await (await post(running, "k1", body)).json()).toMatchObject({
        errors: [{ extensions: { code: "IDEMPOTENCY_ALREADY_DONE" } }],
      });
      expect(running.effects).toEqual(["pay 5"]);
    });

  if (name === "GraphQL Yoga")
    it("does not touch subscriptions", async () => {
      const running = await serve({ required: true });
      for (const _ of [1, 2]) {
        const response = await post(
          running,
          "k1",
          { query: "subscription { ticks }" },
          { accept: "text/event-stream" },
        );
        expect(await response.text()).toContain('{"data":{"ticks":1}}');
      }
      expect(running.effects).toEqual(["subscribe", "subscribe"]);
    });
});
