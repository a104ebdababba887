/** Asks for effects in this process, and notes what it was told, for trials in which the process itself is not killed. */
import { randomUUID } from "node:crypto";
import type { Ask } from "./effects-referee.ts";
import type { OpenDoor, Opened } from "./workers/effects.js";

export interface Asking {
  readonly asks: readonly Ask[];
  /** How often each answer was given. */
  answers(): Readonly<Record<string, number>>;
  /** Resolves to whether it is done. */
  ask(opened: Opened, key: string): Promise<boolean>;
}

export function createAsking(): Asking {
  const asks: Ask[] = [];
  return {
    asks,
    answers() {
      const answers: Record<string, number> = {};
      for (const { told } of asks) answers[told?.answer ?? ""] = (answers[told?.answer ?? ""] ?? 0) + 1;
      return answers;
    },
    async ask(opened, key) {
      const asked: Ask = { key, worked: [], workedAt: [], steps: [], sagas: [] };
      asks.push(asked);
      const newValue = () => {
        const value = randomUUID();
        asked.worked.push(value);
        asked.workedAt.push(performance.now());
        return value;
      };
      try {
        const value = (await opened.run(key, { newValue, note() {} })) as string;
        asked.told = { answer: "done", value, at: performance.now() };
        return true;
      } catch (error) {
        const { code } = error as { readonly code?: unknown };
        const answer = typeof code === "string" ? code : "error";
        asked.told = { answer, value: String(error), at: performance.now() };
        return false;
      }
    },
  };
}

/** Opens a door with the library of this folder. */
export async function openDoor(
  open: OpenDoor,
  url: string,
  library: string,
  limits: object,
): Promise<Opened> {
  const { createGuard } = await import(`${library}/index.js`);
  return open({
    url,
    load: (file) => import(`${library}/${file}`),
    noteDelivery() {},
    createGuard: (options) => createGuard({ purgeEveryMs: 0, ...options, ...limits }),
  });
}
