/** The calls of a subject that have not ended: for libraries that document no shutdown, the application waits for them. */
import { setTimeout as sleep } from "node:timers/promises";

const MOST_MS = 5_000;

export function createRunningCalls() {
  const running = new Set();
  return {
    track(answer) {
      running.add(answer);
      void answer.finally(() => running.delete(answer));
      return answer;
    },
    ended: () => Promise.race([Promise.allSettled(running), sleep(MOST_MS)]),
  };
}
