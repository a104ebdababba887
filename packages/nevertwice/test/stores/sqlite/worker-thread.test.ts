/** Tests what a caller is told about a worker thread that ends: a retry helps only if the thread could be loaded. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { expect, onTestFinished, test } from "vitest";
import { createWorkerThread, type WorkerThread } from "../../../src/stores/sqlite/worker-thread.ts";

const CALLS = 3;

/** A thread that runs this program, whose file is called `name`. Without a program, there is no such file. */
function threadOf(name: string, program?: string): WorkerThread<string, string> {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-worker-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, name);
  if (program !== undefined) writeFileSync(file, program);
  return createWorkerThread({ start: (gate) => new Worker(file, { workerData: { gate }, stderr: true }) });
}

test.each([
  ["is missing", "worker.cjs", undefined],
  ["is an ES module under a name of CommonJS", "worker.cjs", 'import "node:fs";'],
  ["needs a module that is missing", "worker.mjs", 'import "./call-runner.js";'],
  ["requires a package that is missing", "worker.cjs", 'require("nevertwice-nowhere");'],
  ["throws while it is loaded", "worker.cjs", "module.exports = __undefined_by_the_bundler;"],
  ["has no program behind its name", "worker.txt", "worker"],
])("if the worker's file %s, every call is refused for good", async (_, name, program) => {
  const thread = threadOf(name, program);
  for (let call = 0; call < CALLS; call++) {
    await expect(thread.run("a")).rejects.toMatchObject({
      code: "options-invalid",
      retryable: false,
      message: expect.stringMatching(/worker thread cannot be loaded: .+mark nevertwice as external/s),
    });
  }
  await thread.close();
});

test("if the worker's file has no name, every call is refused for good", async () => {
  const thread = createWorkerThread<string, string>({
    start: () => new Worker(new URL("./worker.js", undefined as unknown as string)),
  });
  for (let call = 0; call < CALLS; call++)
    await expect(thread.run("a")).rejects.toMatchObject({ code: "options-invalid", retryable: false });
});

const CRASHING = `
const { parentPort, workerData: { gate } } = require("node:worker_threads");
parentPort.on("message", ([kind, request]) => {
  if (kind === "close") return parentPort.postMessage(["closed"]);
  Atomics.add(gate, 2, 1);
  if (request === "crash") throw new Error("crashed");
  parentPort.postMessage(["done", request]);
});`;

test("if the worker ends after it was loaded, a retry helps", async () => {
  const thread = threadOf("worker.cjs", CRASHING);
  await expect(thread.run("crash")).rejects.toMatchObject({ code: "unavailable", retryable: true });
  expect(await thread.run("a")).toBe("a");
  await expect(thread.run("crash")).rejects.toMatchObject({ code: "unavailable", retryable: true });
  await thread.close();
});

test("if its file is removed later, the call after the worker's end is refused for good", async () => {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-worker-"));
  const file = join(folder, "worker.cjs");
  writeFileSync(file, CRASHING);
  const thread = createWorkerThread<string, string>({
    start: (gate) => new Worker(file, { workerData: { gate }, stderr: true }),
  });
  expect(await thread.run("a")).toBe("a");
  rmSync(folder, { recursive: true });
  await expect(thread.run("crash")).rejects.toMatchObject({ code: "unavailable" });
  await expect(thread.run("a")).rejects.toMatchObject({ code: "options-invalid", retryable: false });
});
