/** The gateway is killed after the effect, while the service handles the request, and starts again. The service loses the request. */
import { GATEWAYS, reconciles } from "../stage.ts";
import type { Fault } from "./fault.ts";

export const gatewayKilledAfter: Fault = {
  name: "gateway-killed-after",
  title: "gateway killed after",
  says: "the gateway is killed after the effect, and starts again. A caller whose call fails calls again with its key, after the lease",
  doors: GATEWAYS,
  ends: (door) => (reconciles(door) ? "one answer" : "no second effect"),
  kills: true,
  run: ({ callAgain }) => callAgain(),
  async meanwhile(trials, stage) {
    await Promise.all(trials.map((trial) => trial.comesTo("waits")));
    await stage.restartGateway();
  },
};
