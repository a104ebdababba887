/** The options of `createFetch` are checked when they are given. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { createFetch, type FetchOptions } from "../../src/client/index.ts";
import { FETCH_DEFAULTS } from "../../src/client/settings.ts";

describe("createFetch", () => {
  it.each<[string, object]>([
    ["an unknown option", { retry: 3 }],
    ["a fetch that is none", { fetch: "fetch" }],
    ["a fetch of ours, which retries already", { fetch: createFetch() }],
    ["a header that is none", { header: "Idempotency Key" }],
    ["an empty header", { header: "" }],
    ["another format", { format: "quoted" }],
    ["methods in small letters, which are other methods", { methods: ["post"] }],
    ["methods that are no list", { methods: "POST" }],
    ["a negative number of retries", { retries: -1 }],
    ["retries without end", { retries: Number.POSITIVE_INFINITY }],
    ["retries of 422", { retryStatuses: [422] }],
    ["retries of 400", { retryStatuses: [503, 400] }],
    ["retries of a success", { retryStatuses: [201] }],
    ["a pause of nothing", { firstPauseMs: 0 }],
    ["a deadline in seconds with a fraction", { deadlineMs: 1.5 }],
    ["a deadline that is as long as the window", { deadlineMs: 1_000, windowMs: 1_000 }],
    ["a default deadline that is longer than the window", { windowMs: 60_000 }],
    ["a storage that cannot delete", { storage: { get() {}, set() {} } }],
    ["a clock that is none", { clock: Date.now }],
    ["a timer that is none", { timer: { now: () => 0 } }],
    ["a watcher that is none", { onRetry: true }],
    ["a key instead of a function", { newKey: "k" }],
    ["randomness that is none", { random: 0.5 }],
  ])("refuses %s", (_, options) => {
    expect(() => createFetch(options)).toThrow(expect.objectContaining({ code: "options-invalid" }));
  });

  it("has the options and the defaults that its page says", () => {
    const page = readFileSync(new URL("../../../../docs/client.md", import.meta.url), "utf8");
    const [, options = ""] = /^## Options$([\s\S]*?)^## /m.exec(page) ?? [];
    const rows = [...options.matchAll(/^\| `(\w+)` \| (.*?) \|/gm)];
    const written = rows.flatMap(([, name = "", cell = ""]) => {
      const value = /^`([^`]+)`/.exec(cell)?.[1]?.replace(/(?<=\d)_(?=\d)/g, "");
      return name in FETCH_DEFAULTS ? [[name, JSON.parse(value ?? "null")]] : [];
    });
    expect(Object.fromEntries(written)).toEqual(FETCH_DEFAULTS);
    const source = readFileSync(new URL("../../src/client/settings.ts", import.meta.url), "utf8");
    const [, members = ""] = /interface FetchOptions \{([\s\S]*?)\n\}/.exec(source) ?? [];
    expect(rows.map(([, name]) => name)).toEqual(
      [...members.matchAll(/readonly (\w+)\?:/g)].map(([, name]) => name),
    );
  });

  it("takes an option that is undefined as not given", async () => {
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
