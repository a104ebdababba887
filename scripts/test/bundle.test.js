import { describe, expect, it } from "vitest";
import { inputs, withRelativePaths } from "../bundle.js";

describe("the inputs of the bundle", () => {
  it("are the source of each subpath, of each platform, and of each worker thread", () => {
    const named = inputs({
      ".": "./dist/index.js",
      "./client": "./dist/client/index.js",
      "./package.json": "./package.json",
    });
    expect(Object.keys(named)).toEqual([
      "index",
      "client/index",
      "platform/node",
      "platform/web",
      "stores/sqlite/worker",
      "reservations/sqlite/worker",
      "outbox/sqlite/worker",
    ]);
    expect(named["client/index"]).toMatch(/packages\/nevertwice\/src\/client\/index\.ts$/);
  });
});

describe("a worker that a module starts by its path", () => {
  const worker = /** @type {const} */ (["outbox/sqlite/worker.js", "run();"]);
  const started = 'new Worker(new URL("dist:outbox/sqlite/worker.js", import.meta.url));';

  it.each([
    ["outbox/sqlite.js", "./sqlite/worker.js"],
    ["chunks/outbox.js", "../outbox/sqlite/worker.js"],
    ["index.js", "./outbox/sqlite/worker.js"],
  ])("is found from %s", (name, path) => {
    const files = withRelativePaths(new Map([worker, [name, started]]));
    expect(files.get(name)).toBe(`new Worker(new URL("${path}", import.meta.url));`);
  });

  it("fails the build if it was not bundled", () => {
    expect(() => withRelativePaths(new Map([["index.js", started]]))).toThrow(
      "index.js names outbox/sqlite/worker.js, which is not in the bundle",
    );
  });
});
