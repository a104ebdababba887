/** Tests that the curl examples in docs/server-api.md run unchanged, and print what the page says. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { startServer } from "./api-client.ts";

const PAGE = new URL("../../../docs/server-api.md", import.meta.url);
const run = promisify(execFile);

/** A line that begins with `# {` is the expected output of the lines above it; `…` matches anything. */
function examplesOf(page: string): { readonly script: string; readonly printed: readonly RegExp[] } {
  const blocks = [...page.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, text]) => text as string);
  const lines = blocks.join("\n").split("\n");
  const printed = lines.filter((line) => line.startsWith("# {")).map((line) => patternOf(line.slice(2)));
  return { script: lines.join("\n"), printed };
}

function patternOf(line: string): RegExp {
  const parts = line.split("…").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}${line.endsWith("…") || line.endsWith("{") ? ".*" : ""}$`);
}

test("every curl example prints what its page says", async () => {
  const server = await startServer({ listen: { host: "127.0.0.1", port: 0 } });
  const { url } = await server.listen();
  const { script, printed } = examplesOf(readFileSync(PAGE, "utf8"));
  const { stdout } = await run("bash", [
    "-euo",
    "pipefail",
    "-c",
    script.replaceAll("http://127.0.0.1:4747", url),
  ]);
  const lines = stdout.trim().split("\n");
  expect(lines.length).toBe(printed.length);
  for (const [index, pattern] of printed.entries()) expect(lines[index]).toMatch(pattern);
  expect(printed.length).toBeGreaterThan(10);
});
