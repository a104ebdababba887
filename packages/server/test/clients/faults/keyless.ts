/** The caller sends no key to a route that requires one. */
import type { Fault } from "./fault.ts";

export const keyless: Fault = {
  name: "keyless",
  title: "no key, required",
  says: "the request has no key, and the route has `required`",
  ends: () => "no second effect",
  isKeyless: true,
  isRequired: true,
  run: ({ call }) => call(),
};
