/** Tests that a process that closes its store ends by itself, after the store is closed. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { FOLDER } from "./cli-process.ts";

const CLOSE = fileURLToPath(new URL("./slow/close.js", import.meta.url));

describe("closing reservations on SQLite", () => {
  it("waits for a running sweep", async () => {
    const url = `sqlite:${join(FOLDER, "close.db")}`;
    // A process that may end in the middle of its await does so most of the time, with code 13.
    for (let times = 0; times < 4; times++) {
      const { stdout } = await promisify(execFile)(process.execPath, [CLOSE, url]);
      expect(stdout).toBe("closed\n");
    }
  });
});
