/** Tests the smoke program in the runtimes of the edge, as users have them. `npm run test:matrix` has the others. Needs the build. */
import { expect, test } from "vitest";
import { EDGE_HOSTS } from "../../../../scripts/smoke/edge-hosts.js";

const PROMISES = 23;

test.each(Object.entries(EDGE_HOSTS))("keeps its promises in %s", async (_, smoke) => {
  expect(await smoke()).toBe(PROMISES);
});
