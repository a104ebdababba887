/** Tests the parts of docs/clients.md that `npm run test:clients` writes. */
import { expect, test } from "vitest";
import { readCells, withReport, withRun } from "../clients/page.js";

const part = (/** @type {string} */ name) => `<!-- ${name} -->\n<!-- end of ${name} -->\n`;
const EMPTY = `# Clients\n\n${part("needs")}\nMore.\n\n${part("settings")}\n${part("run")}\n${part("cells")}\nThe end.\n`;

const FAULTS = [
  { name: "none", title: "none", says: "nothing goes wrong" },
  { name: "keyless", title: "no key", says: "the request has no key" },
];
const CELLS = [
  { door: "Express", fault: "none", client: "stripe", effects: 1, told: "ok" },
  { door: "Express", fault: "none", client: "got", effects: 1, told: "ok" },
  { door: "Express", fault: "keyless", client: "got", effects: 0, told: "400" },
  { door: "gateway", fault: "none", client: "got", effects: 0, told: "no answer" },
];
const REPORT = {
  clients: [
    {
      name: "got",
      version: "14.0.0",
      route: "",
      needs: "retries",
      setting: { language: "js", text: "got.extend({});" },
    },
  ],
  faults: FAULTS,
  cells: CELLS,
};

test("has a row for each client, the lines of its setting, and a table for each door", () => {
  const page = withReport(EMPTY, REPORT);
  expect(page).toContain("| `got` | 14.0.0 | nothing | retries |\n");
  expect(page).toContain("### got\n\n```js\ngot.extend({});\n```\n");
  expect(page).toContain(
    "### Measured: Express\n\n| client | none | no key |\n| --- | --- | --- |\n| `stripe` | 1 · ok | its own key |\n| `got` | 1 · ok | 0 · 400 |\n",
  );
  expect(page).toContain("### Measured: gateway\n\n| client | none |\n");
  expect(page).toMatch(/\nMore\.\n[\s\S]+\nThe end\.\n$/);
});

test("reads the cells that it wrote, and replaces them", () => {
  const page = withReport(EMPTY, REPORT);
  expect(readCells(page, FAULTS)).toEqual(CELLS);
  expect(withReport(page, { ...REPORT, cells: [...readCells(page, FAULTS)] })).toBe(page);
});

test("says of which commit the cells are, and keeps it where only the rest is written", () => {
  const page = withRun(withReport(EMPTY, REPORT), "Commit 1a2b3c4, 2026-01-02. Node 20.");
  expect(page).toContain("<!-- run -->\n\nCommit 1a2b3c4, 2026-01-02. Node 20.\n\n<!-- end of run -->\n");
  expect(withReport(page, REPORT)).toBe(page);
});

test("refuses a page without its parts", () => {
  expect(() => withReport("# Clients\n", REPORT)).toThrow("docs/clients.md has no part needs");
});
