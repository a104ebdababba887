/**
 * An MCP server on stdio whose process is killed once, right before it sends the answer of a tool: `node dying-server.js
 * <build> <folder>`. In the folder are its keys, and a line for every effect. Plain JavaScript on the build.
 */
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { fromJsonSchema, McpServer } from "@modelcontextprotocol/server";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";

const [build = "", folder = ""] = process.argv.slice(2);
const { createGuard } = await import(`${build}index.js`);
const { idempotentTool } = await import(`${build}events/mcp.js`);
const { sqliteStore } = await import(`${build}stores/sqlite.js`);

const guard = createGuard({ store: sqliteStore({ file: `${folder}/keys.db` }) });
const tool = idempotentTool(guard, { operation: "charge", scope: "anyone" });
const server = new McpServer({ name: "shop", version: "1.0.0" });
const inputSchema = fromJsonSchema({ type: "object", properties: { amount: { type: "number" } } });
const charge = (/** @type {{ amount: number }} */ { amount }) => {
  appendFileSync(`${folder}/effects`, `charged ${amount}\n`);
  return { content: [{ type: "text", text: `receipt for ${amount}` }] };
};
server.registerTool("charge", { inputSchema }, tool.handler(charge));

const transport = new StdioServerTransport();
const send = transport.send.bind(transport);
const died = `${folder}/died`;
transport.send = (message) => {
  if (JSON.stringify(message).includes("receipt") && !existsSync(died)) {
    writeFileSync(died, "");
    process.kill(process.pid, "SIGKILL");
  }
  return send(message);
};
await server.connect(transport);
