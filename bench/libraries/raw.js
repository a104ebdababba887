/**
 * The loop of the raw libraries: claim, work, complete, by hand. It does only what a right answer needs: one
 * digest for the id, one for the fingerprint if there is one, JSON for the outcome.
 */
import { hash, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

export const LEASE_MS = 30_000;
export const RETENTION_MS = 86_400_000;

/** How often a duplicate of running work retries. */
const POLL_MS = 10;

/** `claim` and `complete` are the store's two steps; `claim` answers as our stores do. */
export function rawLoop({ claim, complete, hasFingerprint }) {
  return async (key, body, work) => {
    const id = hash("sha256", key, "hex");
    const parts = { namespace: "", scope: "", operation: "charge", key };
    const fingerprint = hasFingerprint ? `1:${hash("sha256", JSON.stringify(body), "hex")}` : undefined;
    const token = randomUUID();
    for (;;) {
      const answer = await claim({ id, parts, fingerprint, token });
      if (answer.status === "completed") return JSON.parse(answer.outcome);
      if (answer.status === "new") {
        const value = await work();
        const isKept = await complete({ id, token, outcome: JSON.stringify(value) });
        if (!isKept) throw new Error("the outcome was not kept");
        return value;
      }
      if (answer.status !== "pending") throw new Error(`the key is refused: ${answer.status}`);
      await sleep(POLL_MS);
    }
  };
}

/** Calls that arrive while `flights` calls of `send` are running go together in the next one. Answers keep their order. */
export function grouped(send, flights = 1) {
  let waiting = [];
  let underWay = 0;

  async function sendAll() {
    while (waiting.length > 0) {
      const group = waiting;
      waiting = [];
      const answers = await send(group.map(({ call }) => call));
      for (const [i, { resolve }] of group.entries()) resolve(answers[i]);
    }
    underWay--;
  }

  return (call) =>
    new Promise((resolve) => {
      waiting.push({ call, resolve });
      if (underWay === flights) return;
      underWay++;
      queueMicrotask(sendAll);
    });
}
