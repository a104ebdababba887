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
