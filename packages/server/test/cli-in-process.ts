/** Runs the command line in this process, for tests that call it hundreds of times. */
import { vi } from "vitest";
import { runProgram } from "../cli/program.ts";

export interface Printed {
  readonly code: number;
  readonly out: readonly string[];
  readonly err: readonly string[];
}

/** What a command prints, by stream and line. One call at a time: the streams belong to the process. */
export async function runHere(...words: readonly string[]): Promise<Printed> {
  const texts = { out: "", err: "" };
  const [stdout, stderr] = (["out", "err"] as const).map((name) =>
    vi.spyOn(name === "out" ? process.stdout : process.stderr, "write").mockImplementation((text) => {
      texts[name] += String(text);
      return true;
    }),
  );
  try {
    const code = await runProgram(words);
    const lines = (text: string) => text.split("\n").filter((line) => line !== "");
    return { code, out: lines(texts.out), err: lines(texts.err) };
  } finally {
    stdout?.mockRestore();
    stderr?.mockRestore();
  }
}
