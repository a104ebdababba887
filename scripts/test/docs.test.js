/** Tests the comparison of documents with code, on pages that differ from the code. */
import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { errorsPageProblems } from "../docs/errors-page.js";
import { exampleProblems, examplesOf } from "../docs/examples.js";
import { defaultTagProblems, optionCommentProblems } from "../docs/option-comments.js";
import { defaultCell, interfaceMembers, optionsPageProblems } from "../docs/options-page.js";
import { shownFileProblems, shownFiles } from "../docs/shown-files.js";
import { guaranteesPageProblems } from "../docs.js";

describe("the page of errors", () => {
  const codes = { pending: { status: 409, retryable: true }, conflict: { status: 422, retryable: false } };
  const page = `
| code | status | retryable |
| --- | --- | --- |
| [\`pending\`](#pending) | 409 | yes |
| [\`conflict\`](#conflict) | 422 | no |

## \`pending\`

## \`conflict\`
`;

  test("passes when it says what the code does", () => {
    expect(errorsPageProblems(page, codes)).toEqual([]);
  });

  test.each([
    ["a code without a section", page.replace("## `conflict`", ""), "no heading for conflict"],
    ["a section twice", `${page}\n## \`pending\`\n`, "heading for pending twice"],
    ["a section for nothing", `${page}\n## \`gone\`\n`, "heading for gone, which does not exist"],
    ["a code without a row", page.replace(/^.*#conflict.*\n/m, ""), "no table row for conflict"],
    ["another status", page.replace("409", "423"), 'the row of pending says "pending 423 yes"'],
    ["another answer to a retry", page.replace("| no |", "| yes |"), 'the code does "conflict 422 no"'],
    ["a link to another section", page.replace("(#conflict)", "(#pending)"), "the row of conflict"],
  ])("fails on %s", (_, markdown, problem) => {
    expect(errorsPageProblems(markdown, codes)).toEqual([expect.stringContaining(problem)]);
  });
});

describe("the comments of options", () => {
  const source = `
export interface Options {
  /**
   * How long a duplicate waits.
   * @default 10_000 (10 s)
   */
  readonly waitMs?: number;
  /**
   * The methods that count.
   * @default ["POST", "PATCH"]
   */
  readonly methods?: readonly string[];
  /** Reads the time. */
  readonly clock?: object;
}
`;
  const defaults = { waitMs: 10_000, methods: ["POST", "PATCH"] };

  test("pass when they say what the code does", () => {
    expect(optionCommentProblems("options.ts", source, "Options", defaults)).toEqual([]);
  });

  test.each([
    ["no comment", source.replace("/** Reads the time. */", ""), "Options.clock has no doc comment"],
    ["no default", source.replace("@default 10_000 (10 s)", ""), "Options.waitMs does not say its @default"],
    [
      "another number",
      source.replace("10_000", "1_000"),
      "the default of Options.waitMs is 10000, not 1_000",
    ],
    ["another list", source.replace(', "PATCH"', ""), 'Options.methods is ["POST","PATCH"], not ["POST"]'],
    ["no interface", source.replace("Options", "Settings"), "there is no interface Options"],
  ])("fail with %s", (_, text, problem) => {
    expect(optionCommentProblems("options.ts", text, "Options", defaults)).toEqual([
      expect.stringContaining(problem),
    ]);
  });
});

describe("the @default of an option that has a page", () => {
  const option = (/** @type {string | undefined} */ written, /** @type {unknown} */ value) => [
    {
      heading: "Options",
      options: [{ name: "waitMs", default: "", stated: { owner: "Wait", written, value } }],
    },
  ];

  test("is the default in the code", () => {
    expect(defaultTagProblems(option("10_000 (10 s)", 10_000))).toEqual([]);
    expect(defaultTagProblems(option(undefined, undefined))).toEqual([]);
    expect(defaultTagProblems(option("the clock", { text: "the system clock" }))).toEqual([]);
    expect(defaultTagProblems(option(undefined, 10_000))).toEqual([
      "Wait.waitMs does not say its @default, 10000",
    ]);
    expect(defaultTagProblems(option("5", 10_000))).toEqual(["the default of Wait.waitMs is 10000, not 5"]);
  });
});

describe("the page of options", () => {
  const sections = [
    {
      heading: "Policies",
      options: [
        { name: "waitMs", default: "`10_000` (10 s)" },
        { name: "onPending", default: '`"wait"`' },
      ],
    },
  ];
  const page = `
## Policies

| option | default | what |
| --- | --- | --- |
| \`waitMs\` | \`10_000\` (10 s) | how long \`a \\| b\` |
| \`onPending\` | \`"wait"\` | what then |

## Another section

| \`other\` | none | x |
`;

  test("passes when it says what the code does", () => {
    expect(optionsPageProblems("docs/options.md", page, sections)).toEqual([]);
  });

  test.each([
    [
      "another default",
      page.replace("10_000", "20_000"),
      "the default of waitMs is `10_000` (10 s), not `20_000` (10 s)",
    ],
    ["another unit", page.replace("10 s", "10 min"), "the default of waitMs"],
    ["an option left out", page.replace(/^.*onPending.*\n/m, ""), "no row for onPending"],
    [
      "an option made up",
      page.replace("| `onPending`", "| `hope` | none | x |\n| `onPending`"),
      "row for hope",
    ],
    ["a section left out", page.replace("## Policies", "## Politics"), 'no section "Policies"'],
  ])("fails on %s", (_, markdown, problem) => {
    expect(optionsPageProblems("docs/options.md", markdown, sections)).toEqual([
      expect.stringContaining(problem),
    ]);
  });

  test.each([
    ["waitMs", 10_000, "`10_000` (10 s)"],
    ["retentionMs", 86_400_000, "`86_400_000` (24 h)"],
    ["leaseMs", 90_000, "`90_000` (90 s)"],
    ["tickMs", 20, "`20` (20 ms)"],
    ["maxOutcomeBytes", 1_048_576, "`1_048_576` (1 MiB)"],
    ["maxRecords", 100_000, "`100_000`"],
    ["onPending", "wait", '`"wait"`'],
    ["reconcile", undefined, "none"],
    ["clock", { text: "the system clock" }, "the system clock"],
  ])("the default of %s is written so that people can read it", (name, value, cell) => {
    expect(defaultCell(name, value)).toBe(cell);
  });

  test("an interface's members are read, and which must be given", () => {
    expect(
      interfaceMembers("export interface A<T> extends B { readonly store: T; waitMs?: number }", "A"),
    ).toEqual([
      { name: "store", isRequired: true, owner: "A", written: undefined },
      { name: "waitMs", isRequired: false, owner: "A", written: undefined },
    ]);
    expect(interfaceMembers("interface A {\n/** B.\n * @default 5 */\nb?: number }", "A")).toMatchObject([
      { name: "b", written: "5" },
    ]);
    expect(() => interfaceMembers("interface A {}", "B")).toThrow("no interface B");
  });
});

describe("the page of guarantees", () => {
  test("has exactly their names as headings", () => {
    const page = "# Guarantees\n\n## The table\n\n## `one-owner`\n\n## `lease-ends`\n";
    expect(guaranteesPageProblems(page, ["one-owner", "lease-ends"])).toEqual([]);
    expect(guaranteesPageProblems(page, ["one-owner", "fence-grows"])).toEqual([
      "docs/guarantees.md: no heading for fence-grows",
      "docs/guarantees.md: heading for lease-ends, which does not exist",
    ]);
  });
});

describe("examples", () => {
  const fence = "```";
  const complete = 'import { isNevertwiceError } from "nevertwice";\n';

  test("are the blocks that import nevertwice; fragments and other languages are left alone", () => {
    const page = `# A\n\n${fence}ts\n${complete}${fence}\n\n${fence}ts\nguard.run();\n${fence}\n\n${fence}sh\nnpm i\n${fence}\n${fence}js server\nimport { memoryStore } from "nevertwice/stores/memory";\n${fence}\n`;
    expect(examplesOf("docs/page.md", page)).toEqual([
      { name: "docs-page-line-3", language: "ts", code: complete, isRun: true },
      {
        name: "docs-page-line-14",
        language: "js",
        code: 'import { memoryStore } from "nevertwice/stores/memory";\n',
        isRun: false,
      },
    ]);
  });

  test("are not the blocks that show a file", () => {
    expect(examplesOf("docs/page.md", `${fence}js examples/charge.js\n${complete}${fence}\n`)).toEqual([]);
  });

  // Needs the build.
  test("are type-checked and run", { timeout: 60_000 }, async () => {
    const problems = await exampleProblems([
      {
        name: "good",
        language: "ts",
        code: `${complete}const a: boolean = isNevertwiceError(1);\nif (a) throw 1;\n`,
        isRun: true,
      },
      {
        name: "needs-a-server",
        language: "ts",
        code: `${complete}throw new Error(String(isNevertwiceError(1)));\n`,
        isRun: false,
      },
      {
        name: "untyped",
        language: "ts",
        code: `${complete}const a: string = isNevertwiceError(1);\nvoid a;\n`,
        isRun: true,
      },
      {
        name: "broken",
        language: "js",
        code: `${complete}throw new Error(String(isNevertwiceError(1)));\n`,
        isRun: true,
      },
      {
        name: "misspelt",
        language: "js",
        code: 'import { createGard } from "nevertwice";\nvoid createGard;\n',
        isRun: true,
      },
    ]);
    expect(problems).toEqual([
      expect.stringMatching(/^untyped\.ts\(2,7\): error TS2322/),
      expect.stringMatching(/^misspelt\.js\(1,10\): error TS\d+/),
      expect.stringContaining("broken fails when it is run"),
      expect.stringContaining("misspelt fails when it is run"),
    ]);
  });
});

describe("a block that names a file", () => {
  const fence = "```";
  const block = (/** @type {string} */ file, /** @type {string} */ code) =>
    `${fence}js ${file}\n${code}${fence}\n`;
  const FILE = "examples/recipes/web/nitro/nitro.config.js";

  test("shows that file, and nothing else", async () => {
    const text = await readFile(new URL(`../../${FILE}`, import.meta.url), "utf8");
    const page = `${block(FILE, text)}${block(FILE, `${text}more();\n`)}${block("examples/gone.js", text)}${fence}js\na/b;\n${fence}\n`;
    expect(await shownFileProblems(shownFiles("docs/page.md", page))).toEqual([
      `docs/page.md: the block of ${FILE} is not what the file contains`,
      "docs/page.md: there is no examples/gone.js",
    ]);
  });
});
