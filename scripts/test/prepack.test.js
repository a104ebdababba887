/** Links and imports that prepack rewrites for the tarball lead to the same files as before. */
import { expect, test } from "vitest";
import { withAbsoluteLinks, withBuiltExtensions } from "../prepack.js";

const HOME = "https://example.com/nevertwice";

test.each([
  ["[errors](docs/errors.md#conflict)", `[errors](${HOME}/blob/v1.0.0/docs/errors.md#conflict)`],
  ["[errors](./docs/errors.md)", `[errors](${HOME}/blob/v1.0.0/docs/errors.md)`],
  ["![storm](docs/storm.png)", `![storm](${HOME}/raw/v1.0.0/docs/storm.png)`],
  ["[here](#here)", "[here](#here)"],
  ["[there](https://example.com/a)", "[there](https://example.com/a)"],
])("%s becomes %s", (markdown, expected) => {
  expect(withAbsoluteLinks(markdown, { page: HOME, tag: "v1.0.0", folder: "" })).toBe(expected);
});

test.each([
  ["[errors](../../docs/errors.md#conflict)", `[errors](${HOME}/blob/v1.0.0/docs/errors.md#conflict)`],
  ["[deploy](deploy/compose.yaml)", `[deploy](${HOME}/blob/v1.0.0/packages/server/deploy/compose.yaml)`],
])("%s of a package's own README becomes %s", (markdown, expected) => {
  const repository = { page: HOME, tag: "v1.0.0", folder: "packages/server" };
  expect(withAbsoluteLinks(markdown, repository)).toBe(expected);
});

test.each([
  ['export { a } from "./core/a.ts";', 'export { a } from "./core/a.js";'],
  ['import type { A } from "../core/a.ts";', 'import type { A } from "../core/a.js";'],
  ['import "./a.ts";', 'import "./a.js";'],
  ['declare const a: import("./a.ts").A;', 'declare const a: import("./a.js").A;'],
  ['import { hash } from "node:crypto";', 'import { hash } from "node:crypto";'],
  ['declare const file: "./a.ts";', 'declare const file: "./a.ts";'],
])("%j becomes %j in a declaration", (declaration, expected) => {
  expect(withBuiltExtensions(declaration)).toBe(expected);
});
