/** Tests that a tag is published only if both packages have its version, and the server depends on that library. */
import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { ROOT, run } from "../command.js";
import { releaseProblems } from "../release.js";

const library = { name: "nevertwice", version: "1.2.3" };
const server = { name: "@nevertwice/server", version: "1.2.3", dependencies: { nevertwice: "1.2.3" } };

test("a tag that both packages agree with may be published", () => {
  expect(releaseProblems("v1.2.3", library, server)).toEqual([]);
});

test.each([
  ["a tag without its v", "1.2.3", {}, {}, 2],
  ["another tag", "v1.2.4", {}, {}, 2],
  ["a library that was forgotten", "v1.2.3", { version: "1.2.2" }, {}, 2],
  ["a server that was forgotten", "v1.2.3", {}, { version: "1.2.2" }, 1],
  ["a server that needs an older library", "v1.2.3", {}, { dependencies: { nevertwice: "1.2.2" } }, 1],
  ["a server that needs a range", "v1.2.3", {}, { dependencies: { nevertwice: "^1.2.3" } }, 1],
  ["a server without the library", "v1.2.3", {}, { dependencies: {} }, 1],
])("%s may not", (_, tag, changedLibrary, changedServer, count) => {
  const problems = releaseProblems(tag, { ...library, ...changedLibrary }, { ...server, ...changedServer });
  expect(problems).toHaveLength(count);
});

test("the packages of this repository would be released under their version, and no other", async () => {
  const { version } = JSON.parse(await readFile(`${ROOT}packages/nevertwice/package.json`, "utf8"));
  const release = (/** @type {string} */ tag) => run(process.execPath, ["scripts/release.js", tag]);
  expect(await release(`v${version}`)).toMatchObject({ code: 0, output: "" });
  expect(await release("v999.0.0")).toMatchObject({
    code: 1,
    output: expect.stringContaining("the tag is v999.0.0, and nevertwice has the version"),
  });
});
