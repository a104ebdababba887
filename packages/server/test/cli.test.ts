/** Tests what all commands share: finding a command, help texts, errors and output. */
import { execFileSync, spawn } from "node:child_process";
import { describe, expect, it } from "vitest";
import { ended, FOLDER, MAIN, run, startWith } from "./cli-process.ts";

const COMMANDS = [
  "serve",
  "demo",
  "access",
  "keys",
  "holds",
  "outbox",
  "audit",
  "doctor",
  "check-store",
  "prove",
  "migrate",
  "purge",
  "plan",
  "import",
  "pipeline",
  "regions",
  "completion",
];

describe.concurrent("nevertwice", { timeout: 60_000 }, () => {
  it("lists every command, and prints its version", async () => {
    const help = await run(["help"]);
    expect(help.code).toBe(0);
    const listed = help.out.flatMap((line) => /^ {2}(\S+) /.exec(line)?.[1] ?? []);
    expect(listed).toEqual([...COMMANDS, "help", "version"]);
    expect((await run(["version"])).out).toEqual(["0.1.0"]);
    expect((await run(["--version", "--json"])).out).toEqual([
      '{"command":"version","ok":true,"exit":0,"data":{"version":"0.1.0"}}',
    ]);
  });

  it.each(COMMANDS)("prints the usage of %s, with its flags and the exit codes", async (name) => {
    const [usage, help] = await Promise.all([run([name, "--help"]), run(["help", name])]);
    expect(usage).toEqual(help);
    expect(usage).toMatchObject({ code: 0, err: [] });
    expect(usage.out[0]).toMatch(new RegExp(`^nevertwice ${name}\\b`));
    expect(usage.out.at(-1)).toMatch(/^Exit codes: 0 .* 1 .* 2 .* 3 /);
    expect(usage.out.join("\n")).toContain("--json");
  });

  it("reports a wrong setting with its place and what it must be, with code 2", async () => {
    const flag = await run(["serve", "--listen", "here"]);
    expect(flag.code).toBe(2);
    expect(flag.err).toEqual([
      'nevertwice serve: --listen is "here"; it must be an address with its port, e.g. "127.0.0.1:4747" or "[::1]:4747".',
    ]);
    const variable = await ended(startWith({ NEVERTWICE_SERVER_LISTEN: "there" }, "serve"), "");
    expect(variable.code).toBe(2);
    expect(variable.err[0]).toContain('NEVERTWICE_SERVER_LISTEN is "there"');
  });

  it("prints an error as JSON with --json", async () => {
    const { code, out, err } = await run(["serve", "--json", "--listen", "here"]);
    expect({ code, err }).toEqual({ code: 2, err: [] });
    expect(JSON.parse(out.join(""))).toEqual({
      command: "serve",
      ok: false,
      exit: 2,
      error: { code: "setting-invalid", message: expect.stringContaining("--listen") },
    });
  });

  it("succeeds if its reader stops early", async () => {
    const child = spawn("sh", ["-c", `"${process.execPath}" "${MAIN}" serve --help | head -n 1`], {
      cwd: FOLDER,
    });
    const { code, out, err } = await ended(child, "");
    expect({ code, out, err }).toEqual({ code: 0, out: ["nevertwice serve [--FLAG …]"], err: [] });
  });

  it("uses colours only on a terminal, and not with NO_COLOR", async () => {
    const onTerminal = (before: string) =>
      execFileSync(
        "script",
        ["-qec", `${before} "${process.execPath}" "${MAIN}" doctor memory:`, "/dev/null"],
        {
          cwd: FOLDER,
          encoding: "utf8",
          env: { ...process.env, TERM: "xterm", NO_COLOR: "" },
        },
      );
    expect(onTerminal("")).toContain("\u001b[31mno\u001b[39m");
    expect(onTerminal("NO_COLOR=1")).not.toContain("\u001b[");
    expect((await run(["doctor", "memory:"])).out.join("")).not.toContain("\u001b[");
  });
});

describe.concurrent("nevertwice completion", { timeout: 60_000 }, () => {
  /** What bash would offer for the last of these words. */
  function offered(script: string, ...words: readonly string[]): readonly string[] {
    const asked = `${script}
COMP_WORDS=(nevertwice ${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length}; _nevertwice
printf '%s\\n' "\${COMPREPLY[@]}"`;
    const text = execFileSync("bash", ["-euc", asked], { cwd: FOLDER, encoding: "utf8" });
    return text.split("\n").filter(Boolean);
  }

  it("completes commands, actions and flags in bash", async () => {
    const { code, out } = await run(["completion", "bash"]);
    expect(code).toBe(0);
    const script = out.join("\n");
    expect(offered(script, "")).toEqual([...COMMANDS, "help", "version"]);
    expect(offered(script, "ch")).toEqual(["check-store"]);
    expect(offered(script, "keys", "")).toEqual([
      "list",
      "namespaces",
      "show",
      "resolve",
      "release",
      "forget",
    ]);
    expect(offered(script, "outbox", "")).toEqual(["list", "retry", "park", "discard"]);
    expect(offered(script, "keys", "re")).toEqual(["resolve", "release"]);
    expect(offered(script, "keys", "resolve", "--fe")).toEqual(["--fence"]);
    expect(offered(script, "keys", "resolve", "some-id", "--a")).toEqual(["--as"]);
    expect(offered(script, "audit", "")).toEqual(expect.arrayContaining(["trace", "doubles", "--server"]));
    expect(offered(script, "completion", "")).toEqual(expect.arrayContaining(["bash", "zsh", "fish"]));
    expect(offered(script, "serve", "--holds")).toEqual(["--holds-store", "--holds-window"]);
    expect(offered(script, "help", "se")).toEqual(["serve"]);
  });

  it("has scripts for zsh and fish, and no other", async () => {
    const [zsh, fish, other] = await Promise.all(
      ["zsh", "fish", "tcsh"].map((shell) => run(["completion", shell])),
    );
    expect(zsh?.out.join("\n")).toContain("bashcompinit");
    expect(fish?.out).toContain(
      "complete -c nevertwice -f -n '__fish_seen_subcommand_from keys; and not __fish_seen_subcommand_from list namespaces show resolve release forget' -a 'list namespaces show resolve release forget'",
    );
    expect(other?.code).toBe(2);
    expect(other?.err[0]).toBe(
      'nevertwice completion: unknown argument "tcsh". See nevertwice completion --help.',
    );
  });
});
