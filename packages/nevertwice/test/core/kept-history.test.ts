/** Tests the text of a history; the kit's cases of `history-kept` prove its meaning on every store. */
import { expect, test } from "vitest";
import {
  endedHistory,
  type HistoryOwner,
  historyIn,
  nextHistory,
  renewedHistory,
} from "../../src/core/kept-history.ts";

const OWNER: HistoryOwner = {
  id: "id",
  token: "a",
  state: "pending",
  spent: false,
  number: 3,
  fence: 30,
  claimedAt: 1_000.9,
  leaseEndsAt: 2_000.5,
  completedAt: undefined,
};

const EARLIER = "1 10 100 150;";

test("notes count renewals and keep the first end's place", () => {
  expect(renewedHistory(OWNER, 1_500.7)).toBe("a\n 1 1500");
  expect(renewedHistory({ ...OWNER, history: `a\n 1 1500;${EARLIER}` }, 1_600)).toBe(`a\n 2 1600;${EARLIER}`);
  expect(endedHistory(OWNER, "unknown", 1_700)).toBe("a\n 0 0 1700 unknown");
  expect(endedHistory({ ...OWNER, history: "a\n 2 1600" }, "released", 1_700)).toBe(
    "a\n 2 1600 1700 released",
  );
});

test("the attempt that a claim replaces becomes the first entry", () => {
  const history = "a\n 2 1600;2 20 200 r 0 0 250 released";
  expect(nextHistory({ ...OWNER, history }, "b")).toBe(
    "b\n;3 30 1000 2000 2 1600;2 20 200 r 0 0 250 released",
  );
  expect(nextHistory({ ...OWNER, spent: true }, "b")).toBe("b\n;3 30 1000 u");
  expect(nextHistory({ ...OWNER, spent: true, state: "released" }, "b")).toBe("b\n;3 30 1000 r");
});

test("the text stays bounded however many attempts and renewals there are", () => {
  let owner: HistoryOwner = { ...OWNER, claimedAt: 1e13 - 1, leaseEndsAt: 1e13 - 1 };
  for (let number = 99_900; number < 100_000; number++) {
    owner = {
      ...owner,
      number,
      fence: 9_007_199_254_740_991,
      history: `${owner.token}\n 99999 9999999999999${entriesIn(owner)}`,
    };
    owner = { ...owner, spent: true, history: endedHistory(owner, "released", 1e13 - 1) };
    owner = { ...owner, history: nextHistory(owner, "a"), spent: false };
  }
  expect(owner.history?.length).toBeLessThan(3_000);
  expect(owner.history?.split(";")).toHaveLength(33);
});

const entriesIn = ({ history = "" }: { readonly history?: string | undefined }) =>
  history.includes(";") ? history.slice(history.indexOf(";")) : "";

test("a history under another token is none, and its attempts are counted as dropped", () => {
  const history = `another\n 5 1500;${EARLIER}`;
  const present = { number: 3, fence: 30, claimedAt: 1_000.9, renewals: 0 };
  expect(historyIn({ ...OWNER, history }, "pending")).toMatchObject({ attempts: [present], dropped: 2 });
  expect(renewedHistory({ ...OWNER, history }, 1_500)).toBe("a\n 1 1500");
});

test.each(["a\n nonsense", "a\n 1 1500 1600 gone", "a\n;1 10 100", "a\n;1 10 100 x", "a\n;"])(
  "a damaged history, %j, is refused by read and stops no claim and no renewal",
  (history) => {
    const owner = { ...OWNER, history };
    expect(() => historyIn(owner, "pending")).toThrow(expect.objectContaining({ code: "store-unsafe" }));
    expect(renewedHistory(owner, 1_500)).toMatch(/^a\n 1 1500/);
    expect(nextHistory(owner, "b")).toMatch(/^b\n;3 30 1000 2000/);
  },
);
