/** Runs the command as a separate process, on the current build. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll } from "vitest";

export const MAIN = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));

/** The working directory of the commands; removed after the tests of the file. */
export const FOLDER = mkdtempSync(join(tmpdir(), "nevertwice-cli-"));

const children = new Set<ChildProcessWithoutNullStreams>();

afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(FOLDER, { recursive: true, force: true });
});

export function start(...args: readonly string[]): ChildProcessWithoutNullStreams {
  return startWith({}, ...args);
}

export function startWith(
  env: Readonly<Record<string, string>>,
  ...args: readonly string[]
): ChildProcessWithoutNullStreams {
  const child = spawn(process.execPath, [MAIN, ...args], { cwd: FOLDER, env: { ...process.env, ...env } });
  children.add(child);
  child.once("close", () => children.delete(child));
  return child;
}

export interface Ended {
  readonly code: number | null;
  readonly out: readonly string[];
  readonly err: readonly string[];
}

export async function ended(child: ChildProcessWithoutNullStreams, input?: string): Promise<Ended> {
  const texts = { out: "", err: "" };
  child.stdout.setEncoding("utf8").on("data", (text) => {
    texts.out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text) => {
    texts.err += text;
  });
  if (input !== undefined) child.stdin.end(input);
  const [code] = await once(child, "close");
  const lines = (text: string) => text.split("\n").filter((line) => line !== "");
  return { code, out: lines(texts.out), err: lines(texts.err) };
}

export const run = (args: readonly string[], input = "") => ended(start(...args), input);

/** The words of a command line without quotes. */
export const words = (line: string): readonly string[] => line.split(" ");

/** The `data` of the envelope of a command that must succeed. */
export async function json<T>(...args: readonly string[]): Promise<T> {
  const { code, out, err } = await run([...args, "--json"]);
  if (code !== 0) throw new Error(`${args.join(" ")} ended with ${code}: ${[...out, ...err].join("\n")}`);
  const { data } = JSON.parse(out.join("\n")) as { readonly data: T };
  return data;
}

/** The output up to a line with this text. */
export function printed(child: ChildProcessWithoutNullStreams, wanted: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const take = (chunk: string) => {
      text += chunk;
      if (text.includes(wanted)) resolve(text);
    };
    child.stdout.setEncoding("utf8").on("data", take);
    child.stderr.setEncoding("utf8").on("data", take);
    child.once("close", () => reject(new Error(`it ended without ${JSON.stringify(wanted)}: ${text}`)));
  });
}

export interface Serving {
  readonly child: ChildProcessWithoutNullStreams;
  readonly url: string;
  readonly gatewayUrl: string;
  readonly ending: Promise<Ended>;
}

/** `serve` on free ports. */
export async function serving(...args: readonly string[]): Promise<Serving> {
  const child = start("serve", "--json", "--listen", "127.0.0.1:0", "--log-level", "silent", ...args);
  const ending = ended(child);
  const text = await printed(child, "\n");
  const { url, gatewayUrl } = JSON.parse(text) as { readonly url: string; readonly gatewayUrl: string };
  return { child, url, gatewayUrl, ending };
}

export async function stop({ child, ending }: Serving): Promise<Ended> {
  child.kill("SIGTERM");
  return ending;
}
