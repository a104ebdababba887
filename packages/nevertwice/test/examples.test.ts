/** The examples are run as a reader would run them: as programs of their own, on the build that `npm test` made before. */
import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const FOLDER = fileURLToPath(new URL("../../../examples/", import.meta.url));

/** Lines that each must print, in this order; an example also asserts its own claims, and fails by its exit code. */
const EXPECTED: Readonly<Record<string, readonly string[]>> = {
  "charge.js": [
    "ran once: receipt-1, and the retry got receipt-1",
    "conflict: order-1 was charged with another amount before",
    "failed, then ran: receipt-2",
    "tryRun: replayed",
  ],
  "observer.js": ["claimed    3", "completed  2", "replayed   5"],
  "storm.js": [
    "ok      all 400 callers hold the same receipt",
    "ok      it was taken over as attempt 2",
    "ok      the ledger refused the late writer by its fence",
    "ok      callers get the receipt that was found",
    "All 16 promises kept, in ",
  ],
  "wrap-and-decorate.js": [
    "wrap: two calls, 1 mail",
    "keyFrom: three calls, two mails",
    "decorator: two calls, 1 parcel",
  ],
};

describe("examples", () => {
  it("are all run here", () => {
    const files = readdirSync(FOLDER).filter((name) => name.endsWith(".js"));
    expect(files.sort()).toEqual(Object.keys(EXPECTED));
  });

  it.each(Object.entries(EXPECTED))("%s does what it says", { timeout: 30_000 }, async (file, lines) => {
    const { code, output } = await run(`${FOLDER}${file}`);
    expect(code, output).toBe(0);
    let from = 0;
    for (const line of lines) {
      const found = output.indexOf(line, from);
      expect(found, `"${line}" is not in what follows:\n${output.slice(from)}`).toBeGreaterThanOrEqual(0);
      from = found + line.length;
    }
  });
});

function run(file: string): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [file], { timeout: 25_000 }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : 1;
      resolve({ code, output: `${stdout}${stderr}` });
    });
  });
}
