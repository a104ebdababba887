/** The caller sends no key to a route that allows it, and the gateway loses the service after the effect. */
import { GATEWAYS } from "../stage.ts";
import type { Fault } from "./fault.ts";

export const keylessLost: Fault = {
  name: "keyless-lost",
  title: "no key, lost after",
  says: "the request has no key, and the gateway loses the service after the effect",
  doors: GATEWAYS,
  ends: () => "no second effect",
  isKeyless: true,
  run: ({ call }) => call(),
};
