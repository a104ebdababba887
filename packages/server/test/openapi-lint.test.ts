/** Tests that Redocly CLI and Spectral find nothing to report in the OpenAPI document of a live server. */
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startServer } from "./api-client.ts";

const MODULES = fileURLToPath(new URL("../../../node_modules/", import.meta.url));
const REDOCLY = `${MODULES}@redocly/cli/bin/cli.js`;
const SPECTRAL = `${MODULES}@stoplight/spectral-cli/dist/index.js`;
const QUIET = { REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "nevertwice-openapi-"));
  await writeFile(join(folder, "ruleset.yaml"), 'extends: ["spectral:oas"]\n');
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function fetchDocument(): Promise<object> {
  const server = await startServer({ listen: { host: "127.0.0.1", port: 0 } });
  const { url } = await server.listen();
  return (await (await fetch(`${url}/openapi.json`)).json()) as object;
}

/** What a linter prints as JSON. Its exit code says only whether there is anything. */
function lint(program: string, args: readonly string[]): Promise<unknown> {
  const options = { cwd: folder, env: { ...process.env, ...QUIET }, maxBuffer: 16 * 1_048_576 };
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [program, "lint", ...args], options, (_error, stdout, stderr) => {
      const start = stdout.search(/[[{]/);
      if (start < 0) reject(new Error(`${program} printed no JSON: ${stdout}${stderr}`));
      else resolve(JSON.parse(stdout.slice(start)));
    });
  });
}

async function redocly(file: string): Promise<readonly string[]> {
  const report = await lint(REDOCLY, [file, "--extends=recommended", "--format=json"]);
  return (report as { readonly problems: readonly { readonly ruleId: string }[] }).problems.map(
    ({ ruleId }) => ruleId,
  );
}

async function spectral(file: string): Promise<readonly string[]> {
  const report = await lint(SPECTRAL, [file, "--ruleset=ruleset.yaml", "--format=json", "--quiet"]);
  return (report as readonly { readonly code: string }[]).map(({ code }) => code);
}

describe.each([
  ["Redocly CLI", redocly, "no-empty-servers"],
  ["Spectral", spectral, "oas3-api-servers"],
] as const)("%s", (name, findProblems, rule) => {
  test("reports no error and no warning", { timeout: 120_000 }, async () => {
    const file = `${name.replace(" ", "-")}.json`;
    await writeFile(join(folder, file), JSON.stringify(await fetchDocument()));
    expect(await findProblems(file)).toEqual([]);
  });

  test("would report a document without servers", { timeout: 120_000 }, async () => {
    const { servers: _, ...rest } = (await fetchDocument()) as { readonly servers: unknown };
    const file = `${name.replace(" ", "-")}-without-servers.json`;
    await writeFile(join(folder, file), JSON.stringify(rest));
    expect(await findProblems(file)).toContain(rule);
  });
});
