/** Tests that the client is for browsers and workers as well: it is bundled for one and run with nothing but what the web has. */
import { fileURLToPath } from "node:url";
import { createContext, runInContext } from "node:vm";
import { build, type Rollup } from "vite";
import { describe, expect, it } from "vitest";
import { CREATED, startServer } from "./server.ts";

const SOURCE = fileURLToPath(new URL("../../src/", import.meta.url));
const MAX_BYTES = 15_500;

/** As far as the client needs them. There is no process here, no Buffer, no require, and no randomUUID. */
function webGlobals() {
  const { AbortController, AbortSignal, Blob, DOMException, FormData, Headers, Request, Response } =
    globalThis;
  const { TextDecoder, TextEncoder, URL, URLSearchParams, clearTimeout, fetch, performance, setTimeout } =
    globalThis;
  return {
    ...{ AbortController, AbortSignal, Blob, DOMException, FormData, Headers, Request, Response },
    ...{ TextDecoder, TextEncoder, URL, URLSearchParams, clearTimeout, fetch, performance, setTimeout },
    crypto: { getRandomValues: (bytes: Uint8Array) => crypto.getRandomValues(bytes) },
  };
}

async function bundle(): Promise<Rollup.OutputChunk> {
  const [result] = (await build({
    configFile: false,
    logLevel: "silent",
    build: {
      write: false,
      minify: true,
      lib: { entry: `${SOURCE}client/index.ts`, formats: ["iife"], name: "client" },
    },
  })) as Rollup.RollupOutput[];
  return result?.output[0] as Rollup.OutputChunk;
}

describe("the client in a bundle for browsers", () => {
  it("contains only its own files and those of core that need no Node, and is small", async ({
    annotate,
  }) => {
    const { code, moduleIds, imports } = await bundle();
    expect(imports).toEqual([]);
    const modules = moduleIds.map((id) => id.replace(SOURCE, ""));
    expect(
      modules.filter((id) => !/^(client\/[\w-]+|core\/(errors|option-checks|shown|clock))\.ts$/.test(id)),
    ).toEqual([]);
    expect(modules).toContain("client/retry-loop.ts");
    // The table of all codes, of which the client needs four.
    expect(code).not.toContain("manifest-invalid");
    await annotate(`${code.length} bytes, minified`);
    expect(code.length).toBeLessThan(MAX_BYTES);
  });

  it("retries, submits and keeps keys with web globals only", async () => {
    const { code } = await bundle();
    const server = await startServer("reset", { status: 503 }, CREATED);
    const context = createContext({ ...webGlobals(), url: server.url });
    runInContext(code, context);
    const program = `(async () => {
      const { createFetch, createSubmission } = client;
      const fetch = createFetch({ firstPauseMs: 1, maxPauseMs: 1, storage: new Map() });
      const body = new FormData();
      body.append("sku", "a-1");
      const texts = [await (await fetch(url, { method: "POST", body })).text()];
      texts.push(await (await fetch(url, { method: "POST", body, idempotencyName: "n" })).text());
      texts.push(await (await createSubmission({ fetch }).send(url, { method: "POST", body })).text());
      return texts.join();
    })()`;
    expect(await runInContext(program, context)).toBe("created,created,created");
    expect(server.keys).toHaveLength(5);
    expect(new Set(server.keys.slice(0, 3)).size).toBe(1);
    expect(new Set(server.keys).size).toBe(3);
    expect(server.keys.every((key) => /^"[0-9a-f-]{36}"$/.test(key ?? ""))).toBe(true);
  });
});
