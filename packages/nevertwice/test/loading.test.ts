/**
 * Tests what loading the package and making its things costs: no randomness, clock, timer or network, which some platforms
 * refuse at the top of a module; and nothing that stays behind when a thing is dropped. Needs the build.
 */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";

const path = (name: string) => fileURLToPath(new URL(`loading/${name}`, import.meta.url));

async function run(...args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return stdout.trim();
}

describe("at the top of a module", { timeout: 120_000 }, () => {
  test("every front door loads, and guards, stores, adapters and the rest are made, without randomness, clock, timer or network", async () => {
    expect(await run("--import", path("forbid.js"), path("construct.js"))).toBe("made 39 things");
  });

  test("and what is forbidden there is seen when a first call asks for it", async () => {
    const program = `
      const { createGuard } = await import(${JSON.stringify(new URL("../dist/index.js", import.meta.url).href)});
      const { memoryStore } = await import(${JSON.stringify(new URL("../dist/stores/memory.js", import.meta.url).href)});
      await createGuard({ store: memoryStore() }).run({ operation: "charge", key: "k" }, () => 1)
        .then(() => console.log("ran"), ({ message }) => console.log(message.split("\\n")[0]));`;
    expect(await run("--import", path("forbid.js"), "--input-type=module", "--eval", program)).toMatch(
      /was asked for/,
    );
  });
});

describe("what is dropped without being closed", { timeout: 120_000 }, () => {
  test.each(["guard", "claims", "reservations", "consumer"])("is collected: %s", async (thing) => {
    expect(await run("--expose-gc", path("drop.js"), thing)).toBe("200");
  });
});
