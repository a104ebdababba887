/** Tests `nevertwice demo`: nothing is done twice, and its own count would show it. */
import { describe, expect, it } from "vitest";
import { createTally } from "../cli/demo/tally.ts";
import { ended, printed, run, start, words } from "./cli-process.ts";

describe.concurrent("nevertwice demo", { timeout: 90_000 }, () => {
  it("sends orders through all faults without a duplicate", async () => {
    const { code, out, err } = await run(words("demo --seconds 4 --rate 20 --listen 127.0.0.1:0"));
    expect(code, [...out, ...err].join("\n")).toBe(0);
    const [sent = 0, made = 0] = ["requests sent", "effects made"].map((name) =>
      Number(out.find((line) => line.startsWith(`${name}: `))?.split(": ")[1]),
    );
    // A busy machine makes only a few in this time.
    expect(made).toBeGreaterThan(0);
    expect(sent).toBeGreaterThan(made);
    expect(out).toContain("duplicates: 0");
    expect(out.at(-1)).toBe("passed: nothing was done twice");
  });

  it("stops on Ctrl-C, serves its last customers, and prints the counts", async () => {
    const child = start("demo", "--listen", "127.0.0.1:0", "--store", "memory:", "--json");
    const ending = ended(child);
    const { url } = JSON.parse(await printed(child, "\n")) as { readonly url: string };
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    child.kill("SIGINT");
    const { code, out } = await ending;
    expect(code).toBe(0);
    expect(JSON.parse(out.at(-1) ?? "")).toMatchObject({
      command: "demo",
      ok: true,
      data: { duplicates: 0, auditHolds: true },
    });
  });
});

describe("the demo's tally", () => {
  it("counts work that started again without a crash, and not after one", () => {
    const { figures, ...tally } = createTally();
    tally.started("a");
    tally.crashed("a");
    tally.started("a");
    expect(figures).toMatchObject({ duplicates: 0, secondTries: 1 });
    tally.started("a");
    expect(figures).toMatchObject({ duplicates: 1, secondTries: 1 });
  });

  it("counts a repeated effect, and different answers for one key", () => {
    const { figures, ...tally } = createTally();
    tally.effect("charge", "a");
    tally.effect("mail", "a");
    tally.answered("a", "1");
    tally.answered("a", "1");
    expect(figures).toMatchObject({ effectsMade: 2, duplicates: 0 });
    tally.effect("mail", "a");
    tally.answered("a", "2");
    expect(figures).toMatchObject({ effectsMade: 3, duplicates: 2 });
  });
});
