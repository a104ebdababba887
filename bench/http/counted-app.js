/**
 * The process of one application, since code that the JIT compiled for another library runs at another speed. It is forked
 * with a plan as its argument, sends the port that it listens on, and answers three messages: `begin` (count from here, and
 * take profiles if the message says so), `end` (send what was counted) and `stop`.
 */
import { startProfiles } from "../inspect.js";
import { makeOperations } from "../payload.js";

export const plan = JSON.parse(process.argv[2]);

const [{ outcome: pattern }] = makeOperations(1);
let ran = 0;
let startedAt = process.cpuUsage();
let stopProfiles;

/** The work: a thousand bytes of JSON. */
export function charge(order) {
  ran++;
  return { ...pattern, order };
}

/** Takes messages until the application is told to stop. */
export function answerMessages({ port, close }) {
  const answers = {
    async begin({ isProfiled }) {
      stopProfiles = isProfiled ? await startProfiles() : undefined;
      ran = 0;
      startedAt = process.cpuUsage();
      process.send({ kind: "begun" });
    },

    async end() {
      const { user, system } = process.cpuUsage(startedAt);
      const profiles = await stopProfiles?.();
      stopProfiles = undefined;
      process.send({ kind: "ended", ran, processorMicroseconds: user + system, profiles });
    },

    async stop() {
      await close();
      process.disconnect();
    },
  };
  process.on("message", (message) => answers[message.kind](message));
  // Also when the benchmark itself has ended.
  process.on("disconnect", () => process.exit());
  process.send({ kind: "ready", port });
}
