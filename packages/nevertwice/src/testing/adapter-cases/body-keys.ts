/** `keyField`: the key is read from the body, whichever kind of body can carry it, or the request is refused. */
import { expect } from "../cases/expect.ts";
import type { Need } from "./harness.ts";
import { expectProblem, expectReplay, expectUnmarked } from "./response-checks.ts";
import { countingRuns } from "./script.ts";
import type { ExchangeCase, ExchangeCases, RequestOverrides } from "./stage.ts";

const FIELD = "ClientToken";
const BOUNDARY = "nevertwice-cases";

type Encode = (fields: Readonly<Record<string, string>>) => Pick<RequestOverrides, "body" | "type">;

const KINDS: Readonly<Record<string, Encode>> = {
  JSON: (fields) => ({ body: JSON.stringify(fields), type: "application/json" }),
  "a form": (fields) => ({
    body: new URLSearchParams(fields).toString(),
    type: "application/x-www-form-urlencoded",
  }),
  "a multipart form": (fields) => ({
    body: `${Object.entries(fields)
      .map(
        ([name, value]) =>
          `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
      )
      .join("")}--${BOUNDARY}--\r\n`,
    type: `multipart/form-data; boundary=${BOUNDARY}`,
  }),
};

function readsKey(kind: string, parser: "none" | "before" | "after"): ExchangeCase {
  const encode = KINDS[kind] as Encode;
  const needs: readonly Need[] = parser === "none" ? [] : [`parser-${parser}`];
  return {
    needs,
    why: "A request whose key is overlooked runs unguarded without a word.",
    async check(stage) {
      const app = await stage.app(countingRuns, { parser, options: { keyField: FIELD, required: true } });
      const asked = { ...encode({ amount: "7", [FIELD]: "t-1 ä, +&" }), key: [] };
      const first = await app.ask(asked);
      expect("the status", first.status, 201);
      expectReplay(await app.ask(asked), first);
      expectUnmarked(await app.ask({ ...encode({ amount: "7", [FIELD]: "t-2" }), key: [] }), "another key");
      expectProblem(await app.ask({ ...encode({ amount: "8", [FIELD]: "t-2" }), key: [] }), 422, "conflict");
      expectProblem(await app.ask({ ...encode({ amount: "7" }), key: "ignored" }), 400, "key-missing");
      expectProblem(await app.ask({ ...encode({ amount: "7", [FIELD]: "" }), key: [] }), 400, "key-invalid");
      expect("how often the handler ran", app.runs(), 2);
    },
  };
}

/** No parser of a framework that is mounted in front of the layer leaves the parts of a multipart body to it. */
const PARSED = ["JSON", "a form"] as const;

export const bodyKeys: ExchangeCases = {
  ...Object.fromEntries(
    Object.keys(KINDS).map((kind) => [`the key is read from ${kind}`, readsKey(kind, "none")]),
  ),
  ...Object.fromEntries(
    PARSED.flatMap((kind) =>
      (["before", "after"] as const).map((parser) => [
        `the key is read from ${kind} with a parser ${parser} the layer`,
        readsKey(kind, parser),
      ]),
    ),
  ),
  ...Object.fromEntries(
    (
      [
        ["broken JSON", '{"ClientToken":"t-1"', "application/json"],
        ["a multipart form without its boundary", "--x\r\n\r\n--x--", "multipart/form-data"],
        ["a form with the key twice", `${FIELD}=a&${FIELD}=b`, "application/x-www-form-urlencoded"],
        ["JSON with the key twice", `{"${FIELD}":"a","${FIELD}":"b"}`, "application/json"],
      ] as const
    ).map(([what, body, type]): [string, ExchangeCase] => [
      `${what} is refused, since its key is not known`,
      {
        why: "The service may read another key from it than the layer, or none.",
        async check(stage) {
          const app = await stage.app(countingRuns, { options: { keyField: FIELD } });
          expectProblem(await app.ask({ body, type, key: [] }), 400, "key-invalid");
          expect("how often the handler ran", app.runs(), 0);
        },
      },
    ]),
  ),
};
