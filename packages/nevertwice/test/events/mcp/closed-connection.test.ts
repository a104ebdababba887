/** Tests `callOnce` where the server's process is killed before its answer is sent, with both SDKs over stdio. Needs the build. */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { Client as Client2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as Stdio2 } from "@modelcontextprotocol/client/stdio";
import { Client as Client1 } from "@modelcontextprotocol/sdk-v1/client/index.js";
import { StdioClientTransport as Stdio1 } from "@modelcontextprotocol/sdk-v1/client/stdio.js";
import { describe, expect, it, onTestFinished } from "vitest";
import { callOnce, type ToolClient } from "../../../src/events/mcp.ts";
import { scratchFolder } from "../../scratch-folder.ts";

const SERVER = fileURLToPath(new URL("dying-server.js", import.meta.url));
const BUILD = new URL("../../../dist/", import.meta.url).href;

const CALL = { name: "charge", arguments: { amount: 5 } };
const OPTIONS = { place: { meta: "idempotency_key" }, retry: { baseMs: 0 }, request: { timeout: 60_000 } };
const NAME = { name: "agent", version: "1.0.0" };

const command = (folder: string) => ({ command: process.execPath, args: [SERVER, BUILD, folder] });

/** Each connects a new client to a new process of the server, and passes the options where its SDK expects them. */
const SDKS = {
  "SDK 1": async (folder: string, onClose: () => void) => {
    const client = new Client1(NAME);
    await client.connect(new Stdio1(command(folder)));
    client.onclose = onClose;
    onTestFinished(() => client.close());
    return (...[params, , options]: unknown[]) =>
      client.callTool(params as typeof CALL, undefined, options as object);
  },
  "SDK 2": async (folder: string, onClose: () => void) => {
    const client = new Client2(NAME);
    await client.connect(new Stdio2(command(folder)));
    client.onclose = onClose;
    onTestFinished(() => client.close());
    return (...[params, options]: unknown[]) => client.callTool(params as typeof CALL, options as object);
  },
} as const;

/** A client of an application that starts its server again when it has gone, and notes how calls failed. */
function restarting(sdk: keyof typeof SDKS, folder: string) {
  const failures: unknown[] = [];
  let starts = 0;
  let open: Promise<(...args: unknown[]) => Promise<unknown>> | undefined;
  const call = async (...args: unknown[]) => {
    if (open === undefined) starts++;
    open ??= SDKS[sdk](folder, () => {
      open = undefined;
    });
    try {
      return await (await open)(...args);
    } catch (error) {
      failures.push(error);
      throw error;
    }
  };
  const client: ToolClient =
    sdk === "SDK 1"
      ? {
          callTool: (params, schema = undefined as never, options = undefined as never) =>
            call(params, schema, options),
        }
      : { callTool: (params, options) => call(params, options) };
  return { client, failures, starts: () => starts };
}

describe("callOnce", () => {
  it.each([
    ["SDK 1", -32_000],
    ["SDK 2", "CONNECTION_CLOSED"],
  ] as const)(
    "of %s repeats a call whose connection the server's death closed, and gets the answer of the only run",
    async (sdk, code) => {
      const folder = await scratchFolder();
      const { client, failures, starts } = restarting(sdk, folder);
      const answer = await callOnce(client, CALL as never, OPTIONS as never);
      expect(answer).toMatchObject({ content: [{ type: "text", text: "receipt for 5" }] });
      expect(failures).toMatchObject([{ code }]);
      expect(starts()).toBe(2);
      expect(await readFile(`${folder}/effects`, "utf8")).toBe("charged 5\n");
    },
  );
});
