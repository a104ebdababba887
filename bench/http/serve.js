/**
 * One application with one layer in front of it, in its own process, since code that the JIT compiled for another library
 * runs at another speed. It is forked with a plan as its argument, sends the port that it listens on, and answers two
 * messages: `begin` (count from here, and take profiles if the message says so) and `end` (send what was counted).
 */
import { startProfiles } from "../inspect.js";
import { makeOperations } from "../payload.js";
import { apps } from "./apps.js";

const { framework, store, library, url, capacity } = JSON.parse(process.argv[2]);
const { openDatabase } = await import(`../databases/${store}.js`);
const { create } = await import(`../libraries/${library}.js`);

const [{ outcome: pattern }] = makeOperations(1);
let ran = 0;
let startedAt = process.cpuUsage();
let stopProfiles;

const target = await openDatabase({ url });
const { layer, isAnswered, close } = await create({ framework, store, target, capacity });
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
    await target.close();
    process.disconnect();
  },
};
