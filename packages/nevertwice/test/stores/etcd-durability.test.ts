/** Tests what the doctor reports about an etcd cluster. */
import { expect, test } from "vitest";
import { diagnose } from "../../src/core/doctor.ts";
import { type ClusterDescription, judgeDurability } from "../../src/stores/etcd/durability.ts";
import { etcdStore } from "../../src/stores/etcd.ts";
import { startEtcd } from "../services/etcd.ts";
import { startFor } from "../services/services.ts";
import { openEtcd } from "./etcd/stores.ts";

test("a cluster of three survives every fault, and the doctor says by what", async (context) => {
  const { title, rung, survives, notes } = await diagnose(openEtcd(context, { clockSkewMs: 5_000 }));
  expect(title).toMatch(/^etcd 3\.\d+\.\d+, 3 members$/);
  expect(rung).toBe("failover");
  expect(survives.failover.because).toContain(
    "3 members: a new leader has every acknowledged write, and 1 may be lost",
  );
  expect(notes[0]).toContain("5000 ms (clockSkewMs)");
  expect(notes.join("\n")).toMatch(/its database may have \d+ MiB \(--quota-backend-bytes\)/);
  expect(notes.join("\n")).not.toContain("compaction");
});

test("one member does not survive its loss; compaction that nothing shows is called unreadable", async (context) => {
  const settings = { "auto-compaction-retention": "0" };
  const cluster = await startFor(context, () => startEtcd({ members: 1, settings }));
  const store = etcdStore({ endpoints: [...cluster.members.map(({ url }) => url), "http://127.0.0.1:1"] });
  context.onTestFinished(() => store.close());
  const { rung, survives, notes } = await diagnose(store);
  expect(rung).toBe("power-loss");
  expect(survives.failover).toMatchObject({ survives: "no", raise: "run 3 members, or 5" });
  expect(notes.join("\n")).toContain("whether auto-compaction is on cannot be read from here");
  expect(notes.join("\n")).toContain("no status from http://127.0.0.1:1");
});

test("a cluster that is down has no settings", async () => {
  const store = etcdStore({ endpoints: "http://127.0.0.1:1", timeoutMs: 300 });
  await expect(store.settings?.()).rejects.toMatchObject({ code: "unavailable" });
});

const STATUS = {
  endpoint: "http://a:2379",
  version: "3.5.16",
  sizeBytes: 1_000_000,
  quotaBytes: 2_147_483_648,
  commandLine: '["etcd","--auto-compaction-retention=1h"]',
};
const CLUSTER: ClusterDescription = {
  members: [{ ID: "1" }, { ID: "2" }, { ID: "3" }],
  statuses: [STATUS],
  alarms: [],
  isCompacted: false,
  revision: 1_000_000,
};
const judged = (more: Partial<ClusterDescription>) => judgeDurability({ ...CLUSTER, ...more }, 5_000);
const status = (more: Partial<typeof STATUS>) => judged({ statuses: [{ ...STATUS, ...more }] });
const survivals = (settings: ReturnType<typeof judged>) =>
  Object.values(settings.survives).map(({ survives }) => survives);

test("learners do not count, and two members survive no loss", () => {
  expect(survivals(judged({}))).toEqual(["yes", "yes", "yes", "yes"]);
  const learner = [{ ID: "1" }, { ID: "2" }, { ID: "3", isLearner: true }];
  expect(survivals(judged({ members: learner }))).toEqual(["yes", "yes", "yes", "no"]);
  expect(survivals(judged({ members: undefined }))).toEqual(["yes", "yes", "yes", "unknown"]);
});

test("members that do not flush, and releases that lose writes, survive no crash", () => {
  const unsafe = status({ commandLine: '["etcd","--unsafe-no-fsync"]' });
  expect(survivals(unsafe)).toEqual(["yes", "no", "no", "no"]);
  expect(survivals(status({ version: "3.5.1" }))).toEqual(["yes", "no", "no", "no"]);
  expect(survivals(judged({ statuses: [] }))).toEqual(["yes", "unknown", "unknown", "yes"]);
});

test.each([
  [
    status({ commandLine: undefined as unknown as string }),
    /auto-compaction seems to be off, since none of 1000000/,
  ],
  [judged({ statuses: [{ ...STATUS, commandLine: undefined }], isCompacted: undefined }), /cannot be read/],
  [status({ commandLine: '["etcd","--auto-compaction-retention","0"]' }), /seems to be off/],
  [
    status({ sizeBytes: 2_000_000_000 }),
    /2048 MiB \(--quota-backend-bytes\) and is 93 % full at http:\/\/a:2379/,
  ],
  [judged({ alarms: ["NOSPACE"] }), /NOSPACE alarm is on/],
  [judged({ statuses: [{ ...STATUS, quotaBytes: undefined }] }), /quota .* cannot be read/],
  [judged({ statuses: [STATUS, { ...STATUS, version: "3.4.23" }] }), /different versions \(3.4.23, 3.5.16\)/],
  [status({ version: "3.3.27" }), /3.3.27 is older than 3.4/],
  [judged({}), /1 of 3 members are in `endpoints`/],
])("a note says so: %#", ({ notes }, text) => {
  expect(notes.join("\n")).toMatch(text);
});

test.each([
  ['["etcd","--auto-compaction-retention=1h"]'],
  ['["etcd","--auto-compaction-mode","revision","--auto-compaction-retention","1000"]'],
])("auto-compaction on the command line %s needs no note", (commandLine) => {
  expect(status({ commandLine }).notes.join("\n")).not.toContain("compaction");
});

test("members with different data are refused", () => {
  expect(judged({ alarms: ["CORRUPT"] }).refused).toContain("CORRUPT");
});
