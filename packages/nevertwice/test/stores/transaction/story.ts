/** What every example of a transaction prints (examples/transaction/story.js). */
export const STORY = [
  "two clicks: paid 42 and 42",
  "clicked again: paid 42",
  "too much: over the limit",
  "while it runs: pending",
  "payments: order-1 42, order-3 7",
];
