/** The service behind the gateway closes the connection without an answer, before the effect. */
import { GATEWAYS, reconciles } from "../stage.ts";
import type { Fault } from "./fault.ts";

export const lostBefore: Fault = {
  name: "lost-before",
  title: "lost before",
  says: "the gateway loses the service before the effect, after it has sent the request",
  doors: GATEWAYS,
  ends: (door) => (reconciles(door) ? "one answer" : "no second effect"),
  run: ({ call }) => call(),
};
