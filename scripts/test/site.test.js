/** Tests the parts of the site that need no build: links, twins, sections, the index for agents, and the reference of the HTTP API. */
import { describe, expect, test } from "vitest";
import { relativeLink, rewriteLinks, siteFile } from "../site/addresses.js";
import { withOpening } from "../site/first-page.js";
import { llmsFullText, llmsText } from "../site/for-agents.js";
import { httpApiMarkdown } from "../site/http-api.js";
import { siteMarkdown, summaryOf, titleOf, toPage, twinMarkdown } from "../site/pages.js";
import { shownSections, sidebarProblems } from "../site/sections.js";
import { examplesListProblems } from "../tidy/examples-list.js";
import { pageLengthProblems } from "../tidy/page-lengths.js";

const http = toPage(
  "docs/http.md",
  "# HTTP\n\nA client sends a key. More.\n\n[life](lifecycle.md#pending)\n",
);
const life = toPage("docs/lifecycle.md", "# The life\n\n![x](images/x.svg)\n\n## Pending\n");
const architecture = toPage(
  "ARCHITECTURE.md",
  "# Architecture\n\n[HTTP](docs/http.md), [code](scripts/site.js), [all](scripts)\n",
);
const PAGES = [http, life, architecture];

describe("the place of a file on the site", () => {
  test.each([
    ["docs/http.md", "http.md"],
    ["bench/results/redis.md", "results/redis.md"],
    ["SECURITY.md", "security-policy.md"],
    ["examples/README.md", "examples.md"],
    ["scripts/site.js", undefined],
    ["packages/server/README.md", undefined],
  ])("of %s is %s", (path, file) => {
    expect(siteFile(path)).toBe(file);
  });

  test("is found from another folder", () => {
    expect(relativeLink("results/redis.md", "http.md")).toBe("../http.md");
    expect(relativeLink("http.md", "lifecycle.md")).toBe("./lifecycle.md");
  });
});

describe("links", () => {
  test("between pages stay on the site, and others lead to the repository", () => {
    const text = siteMarkdown(architecture, PAGES);
    expect(text).toContain("[HTTP](./http.md)");
    expect(text).toContain("[code](https://github.com/nevertwice/nevertwice/blob/main/scripts/site.js)");
    expect(text).toContain("[all](https://github.com/nevertwice/nevertwice/tree/main/scripts)");
  });

  test("in code are left alone", () => {
    const code = "`[a](b.md)`\n\n```md\n[a](b.md)\n```\n";
    expect(rewriteLinks("docs/x.md", code, () => "elsewhere")).toBe(code);
  });

  test("of a twin are whole addresses, of pictures too", () => {
    expect(twinMarkdown(http, PAGES)).toContain(
      "(https://nevertwice.github.io/nevertwice/lifecycle.md#pending)",
    );
    expect(twinMarkdown(life, PAGES)).toContain("(https://nevertwice.github.io/nevertwice/images/x.svg)");
  });
});

describe("the sections", () => {
  test("name every page of docs/", () => {
    expect(
      sidebarProblems([{ path: "docs/http.md" }, { path: "docs/index.md" }, { path: "docs/images/x.svg" }]),
    ).toEqual([]);
    expect(sidebarProblems([{ path: "docs/forgotten.md" }])).toEqual([
      "docs/forgotten.md: no section of scripts/site/sections.js names this page",
    ]);
  });

  test("show only pages that exist", () => {
    const sections = shownSections(new Set(["docs/http.md"]));
    const entries = sections.flatMap(({ entries }) => entries.map(({ page }) => page));
    expect(entries).toEqual(["docs/http.md", "docs/http-api.md", "docs/api/imports.md"]);
  });
});

describe("for agents", () => {
  const sections = shownSections(new Set(PAGES.map(({ path }) => path)));

  test("llms.txt lists each page with its first sentence", () => {
    expect(llmsText(sections, PAGES)).toContain(
      "- [HTTP](https://nevertwice.github.io/nevertwice/http.md): A client sends a key.\n",
    );
  });

  test("llms-full.txt has the text of each page", () => {
    const text = llmsFullText(sections, PAGES);
    for (const title of ["# HTTP", "# The life", "# Architecture"]) expect(text).toContain(title);
  });

  test("titles and summaries have no markup", () => {
    expect(titleOf("# The `guard`\n")).toBe("The guard");
    expect(summaryOf("# A\n\n**Bold** and [a link](b.md) here. Then more.\n")).toBe("Bold and a link here.");
  });
});

test("the first page begins after its title and first paragraph", () => {
  expect(withOpening("# nevertwice\n\nRun once.\n\nThe rest.\n")).toMatch(
    /^---\n\{[\s\S]+\}\n---\n\nThe rest\.\n$/,
  );
});

test("the reference of the HTTP API has every operation with its parameters, fields and answers", () => {
  const text = httpApiMarkdown({
    info: { version: "1.0.0" },
    tags: [{ name: "keys", description: "Keys." }],
    paths: {
      "/v1/keys/{id}": {
        post: {
          operationId: "resolveKey",
          summary: "Decide a key",
          tags: ["keys"],
          parameters: [
            { name: "id", in: "path", required: true, schema: { type: "string" }, description: "The <id>." },
          ],
          requestBody: {
            content: {
              "application/json": {
                schema: { required: ["status"], properties: { status: { enum: ["done", "failed"] } } },
              },
            },
          },
          responses: { 204: { description: "It is decided." } },
        },
      },
    },
  });
  expect(text).toContain("### `POST /v1/keys/{id}`\n\nDecide a key.\n");
  expect(text).toContain("| `id` | path, required | string | The &lt;id>. |");
  expect(text).toContain('| `status`, required | `"done"` or `"failed"` |  |');
  expect(text).toContain("| 204 | It is decided. |  |");
});

test("a page that is too long is found, unless its length is code or it is a reference", () => {
  const long = "word ".repeat(2_001);
  expect(pageLengthProblems([{ path: "docs/a.md", text: long }])).toEqual([
    "docs/a.md: 2001 words; 2000 is the limit for a page that is no reference",
  ]);
  expect(pageLengthProblems([{ path: "docs/a.md", text: `\`\`\`js\n${long}\n\`\`\`\n` }])).toEqual([]);
  expect(pageLengthProblems([{ path: "docs/errors.md", text: long }])).toEqual([]);
});

describe("the list of examples", () => {
  const example = {
    path: "examples/a.js",
    text: 'import express from "express";\nimport { b } from "./b/b.js";\n',
  };
  const beside = { path: "examples/b/b.js", text: 'import "pg";\nimport "node:fs";\n' };
  const list = (/** @type {string} */ row) => ({ path: "examples/README.md", text: `${row}\n` });

  test("names what each one imports", () => {
    const row = "| [`a.js`](a.js) | Shows a. | `nevertwice`, `express`, `pg`, `b/` |";
    expect(examplesListProblems([example, beside, list(row)])).toEqual([]);
    expect(examplesListProblems([example, beside, list(row.replace(", `pg`", ""))])).toEqual([
      "examples/README.md: a.js needs `nevertwice`, `express`, `pg`, `b/`, not `nevertwice`, `express`, `b/`",
    ]);
    expect(examplesListProblems([example, beside, list("")])).toEqual([
      "examples/README.md: no row for a.js",
    ]);
  });
});
