/** A relay in its own process, whose deliverer only counts. */
import { openOutbox } from "nevertwice/outbox/open";

const outbox = await openOutbox(process.argv[2], { migrate: false });
let delivered = 0;
let before = process.cpuUsage();
const relay = outbox.relay({
  batch: 500,
  pollMs: 20,
  deliver() {
    delivered++;
  },
});
process.on("message", async (asked) => {
  if (asked === "start") {
    before = process.cpuUsage();
    relay.start();
  } else if (asked === "report") {
    const { user, system } = process.cpuUsage(before);
    process.send({ delivered, cpuMicros: user + system });
  } else {
    await outbox.close();
    process.disconnect();
  }
});
process.send("ready");
