/**
 * One application with one layer in front of it, in a process of its own: a JIT that has seen another library measures
 * something else. It is forked with a plan as its argument, says on which port it listens, and answers two questions:
 * `begin` (count from here, and take profiles if asked to) and `end` (what was counted).
 */
import { startProfiles } from "../inspect.js";
import { makeOperations } from "../payload.js";
import { apps } from "./apps.js";

const { framework, store, contender, url, capacity } = JSON.parse(process.argv[2]);
const { openPlace } = await import(`../places/${store}.js`);
const { create } = await import(`../contenders/${contender}.js`);

const [{ outcome: pattern }] = makeOperations(1);
let ran = 0;
let startedAt = process.cpuUsage();
let stopProfiles;

const place = await openPlace({ url });
const { layer, isAnswered, close } = await create({ framework, store, place, capacity });
const app = await apps[framework]({ layer, isAnswered, charge });

process.on("message", (message) => answers[message.kind](message));
process.send({ kind: "ready", port: app.port });

function charge(order) {
  ran++;
  return { ...pattern, order };
}

const answers = {
  async begin({ isProfiled }) {
    stopProfiles = isProfiled ? await startProfiles() : undefined;
    ran = 0;
    startedAt = process.cpuUsage();
    process.send({ kind: "begun" });
  },

  async end() {
    const { user, system } = process.cpuUsage(startedAt);
    process.send({
      kind: "ended",
      ran,
      processorMicroseconds: user + system,
      profiles: await stopProfiles?.(),
    });
  },

  async stop() {
    await app.close();
    await close();
    await place.close();
    process.disconnect();
  },
};
