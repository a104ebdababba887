/** Starts a server again that was killed. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Server } from "../services/server.ts";

/** A process that the server forked while it was killed may outlive it for a moment, and keeps its memory until then. */
export async function restart(server: Server): Promise<void> {
  for (let left = 5; ; left--) {
    try {
      return await server.restart();
    } catch (error) {
      if (left === 0) throw error;
      await sleep(200);
    }
  }
}
