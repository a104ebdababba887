/** Tests the page that a campaign writes: a section for each trial, a line for each store. */
import { expect, test } from "vitest";
import { pageOf } from "../../../../scripts/campaign/page.js";

test("the page of a campaign has a section for each trial, with a line for each store", () => {
  const page = pageOf(
    { title: "The stores at scale", campaign: "stores" },
    [
      { trial: "One owner", store: "Redis 7", figures: "80,000 claims" },
      { trial: "Waiters", store: "Redis 7", figures: "the last after 300 ms" },
      { trial: "One owner", store: "Postgres 15", figures: "90,000 claims" },
    ],
    "Node 20, two processors",
  );
  expect(page).toMatch(/^# The stores at scale\n\nWritten by `npm run campaign -- stores`; do not edit\./);
  expect(page).toContain(
    "## One owner\n\n- **Redis 7**: 80,000 claims.\n- **Postgres 15**: 90,000 claims.\n\n## Waiters\n\n- **Redis 7**: the last after 300 ms.\n\nNode 20, two processors",
  );
});
