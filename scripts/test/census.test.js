/** Tests the counts of `npm run census`, on a small repository. */
import { expect, test } from "vitest";
import { census } from "../census.js";

const FILES = [
  { path: "README.md", text: "# A store\n\nThree words more.\n" },
  { path: "docs/page.md", text: "Whoever reads, and whoever writes.\n" },
  {
    path: "packages/nevertwice/src/stores/sqlite.ts",
    text: "export function keyOf() {}\nexport type Kept = 1;\n",
  },
  { path: "packages/nevertwice/src/stores/sqlite-sql.ts", text: "const load = () => 1;\n" },
  { path: "packages/nevertwice/src/stores/sqlite/settings.ts", text: "interface Kept {}\n" },
  { path: "packages/nevertwice/test/stores/sqlite.test.ts", text: "" },
  { path: "packages/nevertwice/test/stores/lost.test.ts", text: "" },
];

test("counts runs of six lines that stand in several places, without indentation, comments and imports", () => {
  const lines = ["one();", "two();", "three();", "four();", "five();", "six();"];
  const first = { path: "scripts/a.js", text: `import "x";\n${lines.join("\n")}\nend();\n` };
  const again = { path: "bench/b.js", text: `begin();\n  // Again.\n  ${lines.join("\n\n  ")}\n` };
  const other = { path: "bench/c.js", text: lines.toReversed().join("\n") };
  const page = { path: "docs/d.md", text: lines.join("\n") };
  const runs = (/** @type {Parameters<typeof census>[0]} */ files) =>
    Object.fromEntries(census(files))["repeated runs of six lines"];
  expect(runs([first, other, page])).toBe("0");
  expect(runs([first, again, other])).toBe("1");
  expect(runs([first, again, { ...first, path: "scripts/e.js" }])).toBe("2");
});

test("counts words, names, files, lines and places", () => {
  expect(Object.fromEntries(census(FILES))).toMatchObject({
    '"whoever" in src': "0",
    '"whoever" in docs': "2",
    "functions ending in Of": "1 of 2",
    "type names with several meanings": "1",
    "files called settings.ts": "1",
    "files of sqlite": "3",
    "files of redis": "0",
    "lines of src": "4",
    "lines of README": "3",
    "words of README": "6",
    "test files": "2: 1 mirror a source, 0 say what they test, 1 do neither",
  });
});
