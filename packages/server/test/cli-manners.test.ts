/**
 * Tests the manners of all commands, from the same table that the command line is made of (`cli/commands.ts`): a new
 * command, action or flag is tested without a line here.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { type Action, choicesFor } from "../cli/command.ts";
import { COMMANDS } from "../cli/commands.ts";
import { QUIET_MS } from "../cli/status-line.ts";
import { runHere } from "./cli-in-process.ts";
import { ended, MAIN, printed, start } from "./cli-process.ts";

const EMPTY = mkdtempSync(join(tmpdir(), "nevertwice-manners-"));
const MISSING = `sqlite:${join(EMPTY, "mistyped.db")}`;

afterAll(() => rmSync(EMPTY, { recursive: true, force: true }));

// A command whose mistake is overlooked must not find or create a database of the developer.
beforeEach(() => {
  vi.stubEnv("NEVERTWICE_SERVER_STORE", MISSING);
});

interface Listed {
  readonly title: string;
  readonly words: readonly string[];
  readonly action: Action;
}

const ACTIONS: readonly Listed[] = Object.entries(COMMANDS).flatMap(([name, { actions }]) =>
  Object.entries(actions).map(([word, action]) => {
    const words = [name, word].filter(Boolean);
    return { title: words.join(" "), words, action };
  }),
);

/** One argument for each that the action takes. */
function argsFor({ takes = [] }: Action): readonly string[] {
  return takes.map((taken) => (typeof taken !== "string" ? (taken[0] as string) : "some-argument"));
}

interface Mistake {
  readonly title: string;
  readonly words: readonly string[];
  /** What the suggestion names. */
  readonly meant?: string;
}

function flagMistakes({ words, action }: Listed): readonly Mistake[] {
  const args = argsFor(action);
  return Object.entries(action.flags).flatMap(([name, flag]) => [
    { title: `--${name}x`, words: [...words, ...args, `--${name}x`, "1"], meant: `--${name}` },
    flag.value === undefined
      ? { title: `--${name}=1`, words: [...words, ...args, `--${name}=1`] }
      : { title: `--${name} without a value`, words: [...words, ...args, `--${name}`] },
    ...(flag.value === undefined
      ? []
      : [{ title: `--${name} -x`, words: [...words, ...args, `--${name}`, "-x"] }]),
    ...(choicesFor(flag) ?? []).map((choice) => ({
      title: `--${name} ${choice}x`,
      words: [...words, ...args, `--${name}`, `${choice}x`],
      meant: choice,
    })),
  ]);
}

function argumentMistakes({ words, action }: Listed): readonly Mistake[] {
  const args = argsFor(action);
  return [
    { title: "one argument too many", words: [...words, ...args, "one-more"] },
    { title: "an unknown flag", words: [...words, ...args, "--bogus"] },
    { title: "an unknown short flag", words: [...words, ...args, "-q"] },
    ...(args.length === 0 ? [] : [{ title: "no argument", words: [...words] }]),
  ];
}

const MISTAKES: readonly Mistake[] = [
  { title: "no command", words: [] },
  { title: "an unknown command", words: ["bogus"] },
  { title: "help about an unknown command", words: ["help", "bogus"] },
  ...Object.keys(COMMANDS).flatMap((name) => [
    { title: `the command ${name}x`, words: [`${name}x`], meant: name },
    { title: `help ${name}x`, words: ["help", `${name}x`], meant: name },
  ]),
  ...Object.entries(COMMANDS).flatMap(([name, { actions }]) =>
    actions[""] !== undefined
      ? []
      : [
          { title: `${name} without an action`, words: [name] },
          ...Object.keys(actions).map((word) => ({
            title: `${name} ${word}x`,
            words: [name, `${word}x`],
            meant: word,
          })),
        ],
  ),
  ...ACTIONS.flatMap((listed) =>
    [...argumentMistakes(listed), ...flagMistakes(listed)].map((mistake) => ({
      ...mistake,
      title: `${listed.title}: ${mistake.title}`,
    })),
  ),
];

/** The flag goes before the others, since the last one may lack its value. */
function withJson(words: readonly string[]): readonly string[] {
  const first = words.findIndex((word) => word.startsWith("-"));
  const at = first === -1 ? words.length : first;
  return [...words.slice(0, at), "--json", ...words.slice(at)];
}

describe("a mistake", () => {
  it.each(MISTAKES)("is one line with a suggestion, and no usage: $title", async ({ words, meant }) => {
    const { code, out, err } = await runHere(...words);
    expect({ code, out }).toEqual({ code: 2, out: [] });
    expect(err).toHaveLength(1);
    expect(err[0]).toMatch(/^nevertwice( [\w-]+)?: /);
    if (meant !== undefined) expect(err[0]).toContain(`Did you mean ${JSON.stringify(meant)}?`);
    else expect(err[0]).toMatch(/Did you mean|See nevertwice( [\w-]+)? --help\.$/);
  });

  it.each(MISTAKES)("is one envelope on standard output with --json: $title", async ({ words }) => {
    const { code, out, err } = await runHere(...withJson(words));
    expect({ code, err }).toEqual({ code: 2, err: [] });
    expect(out).toHaveLength(1);
    expect(JSON.parse(out[0] ?? "")).toEqual({
      command: Object.hasOwn(COMMANDS, words[0] ?? "") ? expect.any(String) : null,
      ok: false,
      exit: 2,
      error: { code: "usage", message: expect.any(String) },
    });
  });

  it("leaves the folder of the store empty", () => {
    expect(readdirSync(EMPTY)).toEqual([]);
  });
});

describe("every action", () => {
  it.each(ACTIONS)("accepts --json: $title", ({ action }) => {
    expect(Object.keys(action.flags)).toContain("json");
  });

  it.each(ACTIONS)("prints its usage only with --help: $title", async ({ words }) => {
    const { code, out, err } = await runHere(...words, "--help");
    expect({ code, err }).toEqual({ code: 0, err: [] });
    expect(out.join("\n")).toContain(`nevertwice ${words.join(" ")}`);
  });
});

/** They may be the first to use a store. Every other action that opens one must find it. */
const CREATES = [
  "serve",
  "demo",
  "access create",
  "holds place",
  "holds declare",
  "check-store",
  "migrate",
  "pipeline run",
  "import",
];

/** Flags that an action needs, apart from the store. */
const NEEDED: Readonly<Record<string, readonly string[]>> = {
  "keys resolve": ["--fence", "1", "--as", "done"],
  "keys release": ["--fence", "1"],
  "keys forget": ["--fence", "1"],
  "audit doubles": ["--within", "1h"],
};

function opensStore({ takes = [], flags }: Action): boolean {
  return Object.hasOwn(flags, "store") || takes.includes("URL");
}

describe("an action that reads, or changes what exists", () => {
  const readers = ACTIONS.filter(({ title, action }) => opensStore(action) && !CREATES.includes(title));

  it("is every action that is not known to create", () => {
    expect(readers.length).toBeGreaterThanOrEqual(20);
    const titles = ACTIONS.map(({ title }) => title);
    expect(titles).toEqual(expect.arrayContaining(CREATES));
  });

  it.each(readers)("does not create a mistyped SQLite file: $title", async ({ title, words, action }) => {
    const stores = Object.hasOwn(action.flags, "store")
      ? ["store", "holds-store", "outbox-store"].filter((name) => Object.hasOwn(action.flags, name))
      : ["URL"];
    for (const name of stores) {
      const needed = NEEDED[title] ?? [];
      const args = argsFor(action).map((arg) => (name === "URL" ? MISSING : arg));
      const flags = name === "URL" ? [] : ["--store", "memory:", `--${name}`, MISSING];
      const { code, out, err } = await runHere(...words, ...args, ...needed, ...flags);
      expect({ code, out }).toEqual({ code: 2, out: [] });
      expect(err).toEqual([expect.stringContaining("there is no SQLite file")]);
      expect(existsSync(join(EMPTY, "mistyped.db"))).toBe(false);
    }
  });
});

describe("a command that takes longer than two seconds", () => {
  /** Accepts requests and answers none of them. */
  async function silentServer(): Promise<{ readonly url: string; readonly server: Server }> {
    const server = createServer(() => {}).listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
  }

  it("says on a terminal how long it has worked", async () => {
    const { url } = await silentServer();
    const list = `"${process.execPath}" "${MAIN}" keys list --server ${url}`;
    const child = spawn("script", ["-qec", list, "/dev/null"], { env: { ...process.env, TERM: "xterm" } });
    onTestFinished(() => void child.kill("SIGKILL"));
    expect(await printed(child, " s")).toMatch(/nevertwice keys list: still working, \d+ s/);
  });

  it("prints nothing of that where there is no terminal", async () => {
    const { url, server } = await silentServer();
    const child = start("keys", "list", "--server", url);
    const ending = ended(child);
    await once(server, "request");
    await new Promise((resolve) => setTimeout(resolve, QUIET_MS + 1_500));
    child.kill("SIGKILL");
    expect(await ending).toEqual({ code: null, out: [], err: [] });
  });
});
