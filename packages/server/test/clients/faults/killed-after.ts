/** The service is killed after the effect, before its outcome is kept, and starts again. */
import { GATEWAYS, reconciles } from "../stage.ts";
import type { Fault } from "./fault.ts";

export const killedAfter: Fault = {
  name: "killed-after",
  title: "killed after",
  says: "the service is killed after the effect, before its answer is kept, and starts again. A caller whose call fails calls again with its key, after the lease",
  ends: (door) => (GATEWAYS.includes(door) || reconciles(door) ? "no second effect" : "named"),
  kills: true,
  run: ({ callAgain }) => callAgain(),
  async meanwhile(trials, stage) {
    await Promise.all(trials.map((trial) => trial.comesTo("waits")));
    await stage.restart();
  },
};
