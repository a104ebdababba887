/** The service behind the gateway closes the connection without an answer, after the effect. */
import { GATEWAYS, reconciles } from "../stage.ts";
import type { Fault } from "./fault.ts";

export const lostAfter: Fault = {
  name: "lost-after",
  title: "lost after",
  says: "the gateway loses the service after the effect, before its answer",
  doors: GATEWAYS,
  ends: (door) => (reconciles(door) ? "one answer" : "no second effect"),
  run: ({ call }) => call(),
};
