/**
 * Tests docs/express-redis.md as a new user follows it: from the first page to a guarded endpoint in an empty folder, with
 * the commands and the file that the page shows, and nothing else. Needs the build.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { scratchFolder } from "../../nevertwice/test/scratch-folder.ts";
import { freePort } from "../../nevertwice/test/services/ports.ts";
import { startRedis } from "../../nevertwice/test/services/redis.ts";
import { startFor } from "../../nevertwice/test/services/services.ts";
import { link, packBuild, run, unpackInto } from "../../nevertwice/test/user-projects.ts";

const DOCS = fileURLToPath(new URL("../../../docs/", import.meta.url));

interface Block {
  readonly language: string;
  readonly name: string;
  readonly text: string;
}

function blocksOf(markdown: string): readonly Block[] {
  return [...markdown.matchAll(/^```(\w+) ?([^\n]*)\n([\s\S]*?)^```$/gm)].map(
    ([, language = "", name = "", text = ""]) => ({ language, name, text }),
  );
}

/** `npm install` as the page says it, from what the repository has installed: no registry is asked. */
async function install(command: string, folder: string): Promise<void> {
  const names = command.replace("npm install ", "").trim().split(" ");
  expect(names).toContain("nevertwice");
  await mkdir(`${folder}/node_modules`);
  await unpackInto(`${folder}/node_modules`, await packBuild(folder));
  for (const name of names) if (name !== "nevertwice") await link(name, `${folder}/node_modules`);
}

/** Starts the program, which prints `ready` when it listens. */
async function start(
  command: string,
  folder: string,
  env: NodeJS.ProcessEnv,
): Promise<() => Promise<number>> {
  const [program = "", ...args] = command.trim().split(" ");
  expect(program).toBe("node");
  const child = spawn(process.execPath, args, { cwd: folder, env: { ...process.env, ...env } });
  onTestFinished(() => void child.kill("SIGKILL"));
  let complaints = "";
  child.stderr.on("data", (data) => {
    complaints += data;
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const { value } = await lines.next();
  expect(value, complaints).toBe("ready");
  return async () => {
    child.kill("SIGTERM");
    const [code] = await once(child, "exit");
    return code;
  };
}

test("a new user gets from the first page to a guarded endpoint", async (context) => {
  const redis = await startFor(context, () => startRedis({ settings: { "maxmemory-policy": "noeviction" } }));
  const folder = await scratchFolder();
  const port = await freePort();
  const [, page = ""] =
    /\[Express and Redis\]\(([\w-]+\.md)\)/.exec(await readFile(`${DOCS}index.md`, "utf8")) ?? [];
  const blocks = blocksOf(await readFile(DOCS + page, "utf8"));

  let stop: (() => Promise<number>) | undefined;
  let printed = "";
  let checked = 0;
  for (const { language, name, text } of blocks) {
    if (name !== "") await writeFile(`${folder}/${name.trim()}`, text);
    else if (language === "text") {
      for (const line of text.trim().split("\n")) expect(printed).toContain(line);
      checked += 1;
    } else
      for (const command of text.trim().split("\n")) {
        if (command.startsWith("npm install")) await install(command, folder);
        else if (command.startsWith("node "))
          stop = await start(command, folder, { PORT: String(port), REDIS_URL: redis.url });
        else printed = await run("bash", ["-c", command.replace(":3000", `:${port}`)], folder);
      }
  }
  expect(checked).toBe(4);
  expect(await stop?.()).toBe(0);
});
