/** Tests that calls share a script only on a server of a cluster that checks the keys which a script uses. */
import { expect, test, vi } from "vitest";
import type { ClusterScripts } from "../../../src/stores/redis/cluster-nodes.ts";
import { createNodeGroups, type NodeGroup } from "../../../src/stores/redis/node-groups.ts";
import { READ } from "../../../src/stores/redis-lua.ts";

type Evaluate = ClusterScripts["evaluate"];

/** The group of the first of two servers, which answer as given. */
function groupOn(evaluate: Evaluate): NodeGroup {
  const [first, second] = [{}, {}];
  // The client does not know who has the slot of "k:2".
  const owners: Readonly<Record<string, object | undefined>> = { "k:2": undefined, "k:3": second };
  const nodes: ClusterScripts = { find: (key) => (key in owners ? owners[key] : first), evaluate };
  const group = createNodeGroups(nodes, (id) => `k:${id}`).find("0");
  if (group === undefined) throw new Error("no group");
  return group;
}

const answered = () => new Promise((resolve) => setImmediate(resolve));
const refusal = (message: string) => () => Promise.reject(new Error(message));

test("a server that refuses the key of another server gets groups", async () => {
  const evaluate = vi.fn<Evaluate>(
    refusal("ERR Script attempted to access a non local key in a cluster node"),
  );
  const group = groupOn(evaluate);
  expect(group.isOpen()).toBe(false);
  await answered();
  expect(group.isOpen()).toBe(true);
  // Asked with a key that the other server has.
  expect(evaluate.mock.calls[0]?.[2].at(-1)).toBe("k:3");
  expect(evaluate).toHaveBeenCalledTimes(1);
});

test("a server that reads the key of another server gets no group, and is asked again after a minute", async () => {
  const now = vi.spyOn(performance, "now").mockReturnValue(0);
  const evaluate = vi.fn<Evaluate>(async () => 0);
  const group = groupOn(evaluate);
  for (const ms of [0, 1_000, 59_999, 60_000, 60_001]) {
    now.mockReturnValue(ms);
    expect(group.isOpen()).toBe(false);
    await answered();
  }
  expect(evaluate).toHaveBeenCalledTimes(2);
});

test("a user without the permission for the question gets no group", async () => {
  const group = groupOn(refusal("NOPERM this user has no permissions to run the 'eval' command"));
  group.isOpen();
  await answered();
  expect(group.isOpen()).toBe(false);
});

test("after a group failed there is none for a second", async () => {
  const group = groupOn(refusal("ERR Script attempted to access a non local key in a cluster node"));
  const now = vi.spyOn(performance, "now").mockReturnValue(0);
  group.isOpen();
  await answered();
  expect(group.isOpen()).toBe(true);
  await expect(group.run(READ, ["1", "2"], [""])).rejects.toThrow(/non local key/);
  expect(group.isOpen()).toBe(false);
  now.mockReturnValue(999);
  expect(group.isOpen()).toBe(false);
  now.mockReturnValue(1_000);
  expect(group.isOpen()).toBe(true);
});

test("a server that could not be reached is asked again", async () => {
  const now = vi.spyOn(performance, "now").mockReturnValue(0);
  const refused = refusal("ERR Script attempted to access a non local key in a cluster node");
  const evaluate = vi.fn<Evaluate>(refused).mockRejectedValueOnce(new Error("Connection is closed."));
  const group = groupOn(evaluate);
  group.isOpen();
  await answered();
  expect(group.isOpen()).toBe(false);
  now.mockReturnValue(1_000);
  group.isOpen();
  await answered();
  expect(group.isOpen()).toBe(true);
});
