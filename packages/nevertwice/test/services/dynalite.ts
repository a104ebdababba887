/** Starts a private DynamoDB: dynalite, which creates tables at once. */
import { createRequire } from "node:module";
import { join } from "node:path";
import { type Server, startServer } from "./server.ts";

const PROGRAM = createRequire(import.meta.url).resolve("dynalite/cli.js");

export async function startDynalite(): Promise<Server> {
  return startServer({
    name: "dynalite",
    ready: /listening at/,
    url: ({ port }) => `http://127.0.0.1:${port}`,
    command: ({ folder, port }) => [
      process.execPath,
      PROGRAM,
      ...["--host", "127.0.0.1", "--port", String(port), "--path", join(folder, "data")],
      ...["create", "update", "delete"].flatMap((step) => [`--${step}TableMs`, "0"]),
    ],
  });
}
