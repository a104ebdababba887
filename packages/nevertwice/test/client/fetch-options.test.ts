/** The options of `createFetch` are checked when they are given. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { FETCH_DEFAULTS } from "../../src/client/fetch-options.ts";
import { createFetch, type FetchOptions } from "../../src/client/index.ts";

describe("createFetch", () => {
  it.each<[string, object]>([
    ["an unknown option", { retry: 3 }],
    ["a fetch that is not a function", { fetch: "fetch" }],
    ["a fetch from createFetch, which already retries", { fetch: createFetch() }],
    ["an invalid header name", { header: "Idempotency Key" }],
    ["an empty header", { header: "" }],
    ["another format", { format: "quoted" }],
    ["methods in lower case", { methods: ["post"] }],
    ["methods that are not a list", { methods: "POST" }],
    ["a negative number of retries", { retries: -1 }],
    ["retries without end", { retries: Number.POSITIVE_INFINITY }],
    ["retries of 422", { retryStatuses: [422] }],
    ["retries of 400", { retryStatuses: [503, 400] }],
    ["retries of a success", { retryStatuses: [201] }],
    ["a pause of 0", { firstPauseMs: 0 }],
    ["a deadline in seconds with a fraction", { deadlineMs: 1.5 }],
    ["a deadline that is as long as the window", { deadlineMs: 1_000, windowMs: 1_000 }],
    ["a default deadline that is longer than the window", { windowMs: 60_000 }],
    ["a storage that cannot delete", { storage: { get() {}, set() {} } }],
    ["an invalid clock", { clock: Date.now }],
    ["an invalid timer", { timer: { now: () => 0 } }],
    ["an invalid onRetry", { onRetry: true }],
    ["a key instead of a function", { newKey: "k" }],
    ["an invalid random", { random: 0.5 }],
  ])("refuses %s", (_, options) => {
    expect(() => createFetch(options)).toThrow(expect.objectContaining({ code: "options-invalid" }));
  });

  it("names the options if one does not exist, in an error of this library", () => {
    const failure = { name: "NevertwiceError", code: "options-invalid", status: 500, retryable: false };
    const create = () => createFetch({ retry: 3 } as object);
    expect(create).toThrow(expect.objectContaining(failure));
    expect(create).toThrow(
      /there is no option called "retry"; there are fetch, header, .*, retries, .*timer\.$/,
    );
  });

  it("has the options and defaults of its page", () => {
    const page = readFileSync(new URL("../../../../docs/client.md", import.meta.url), "utf8");
    const [, options = ""] = /^## Options$([\s\S]*?)^## /m.exec(page) ?? [];
    const rows = [...options.matchAll(/^\| `(\w+)` \| [^|]* \| (.*?) \|/gm)];
    const written = rows.flatMap(([, name = "", cell = ""]) => {
      const value = /^`([^`]+)`/.exec(cell)?.[1]?.replace(/(?<=\d)_(?=\d)/g, "");
      return name in FETCH_DEFAULTS ? [[name, JSON.parse(value ?? "null")]] : [];
    });
    expect(Object.fromEntries(written)).toEqual(FETCH_DEFAULTS);
    const source = readFileSync(new URL("../../src/client/fetch-options.ts", import.meta.url), "utf8");
    const [, members = ""] = /interface FetchOptions \{([\s\S]*?)\n\}/.exec(source) ?? [];
    expect(rows.map(([, name]) => name)).toEqual(
      [...members.matchAll(/readonly (\w+)\?:/g)].map(([, name]) => name),
    );
  });

  it("treats an undefined option as not given", async () => {
    const options: FetchOptions = {
      header: undefined,
      retries: undefined,
      storage: undefined,
      newKey: undefined,
      fetch: async (_, init) => new Response(new Headers(init?.headers).get("idempotency-key")),
    };
    const response = await createFetch(options)("/", { method: "POST" });
    expect(await response.text()).toHaveLength(38);
  });
});
