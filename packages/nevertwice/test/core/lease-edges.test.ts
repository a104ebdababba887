/** Tests one lease in isolation: when it renews, when it is lost, and that it does nothing once it is over. */
import { expect, test } from "vitest";
import { Lease, type LeaseOptions } from "../../src/core/lease.ts";
import { createWorld } from "../../src/testing/simulation/world.ts";
import { createCountingTimer } from "./scene.ts";

const LEASE_MS = 900;

/** A lease claimed at 0 in virtual time, whose renewals are answered by `renew`. */
function createLease({ renew = () => Promise.resolve(true), ...options }: Partial<LeaseOptions> = {}) {
  const { world, timer, noted } = createCountingTimer();
  const renewedAt: number[] = [];
  const renewedFor: number[] = [];
  const lost: (readonly [reason: string, at: number])[] = [];
  const lease = new Lease({
    timer,
    leaseMs: LEASE_MS,
    maxRunMs: 60_000,
    sentAt: 0,
    renew(leaseMs) {
      renewedAt.push(world.now());
      renewedFor.push(leaseMs);
      return renew(leaseMs);
    },
    onLost: (reason) => lost.push([reason, world.now()]),
    ...options,
  });
  return {
    lease,
    renewedAt,
    renewedFor,
    lost,
    armedTimers: () => noted.armed,
    answerAfter: <T>(ms: number, answer: T) =>
      new Promise<T>((resolve) => void world.after(ms, () => resolve(answer))),
    async advanceTo(at: number) {
      let isReached = false;
      world.after(at - world.now(), () => {
        isReached = true;
      });
      await world.run(() => isReached);
    },
  };
}

test("retries a failed renewal after a tenth of the lease, until a tenth before its end", async () => {
  const { renewedAt, lost, advanceTo } = createLease({ renew: () => Promise.reject(new Error("away")) });
  await advanceTo(2_000);
  expect(renewedAt).toEqual([300, 390, 480, 570, 660, 750]);
  expect(lost).toEqual([["not-renewed", 810]]);
});

test("counts a renewal from when it was sent: a late answer is followed at once by the next renewal", async () => {
  const delays = [400, 0];
  const scene = createLease({ renew: () => scene.answerAfter(delays.shift() ?? 5_000, true) });
  await scene.advanceTo(3_000);
  expect(scene.renewedAt).toEqual([300, 700, 1_000]);
  expect(scene.lost).toEqual([["not-renewed", 1_510]]);
});

test("sends nothing more while a renewal is in flight", async () => {
  const { renewedAt, lost, advanceTo } = createLease({ renew: () => new Promise(() => {}) });
  await advanceTo(3_000);
  expect(renewedAt).toEqual([300]);
  expect(lost).toEqual([["not-renewed", 810]]);
});

test("a lease keeps one timer while it is alive, and none once it is stopped or lost", async () => {
  const stopped = createLease();
  for (let at = 50; at <= 5_000; at += 50) {
    await stopped.advanceTo(at);
    expect(stopped.armedTimers()).toBe(1);
  }
  stopped.lease.stop();
  expect(stopped.armedTimers()).toBe(0);

  const lost = createLease();
  lost.lease.lose("guard-closed");
  expect(lost.armedTimers()).toBe(0);
  await lost.advanceTo(5_000);
  expect(lost.renewedAt).toEqual([]);

  const overtaken = createLease({ renew: () => Promise.resolve(false) });
  await overtaken.advanceTo(5_000);
  expect(overtaken.armedTimers()).toBe(0);
  expect(overtaken.lost).toEqual([["overtaken", 300]]);
});

test.each([true, false])(
  "a lease that is stopped while a renewal is in flight does not change when the answer is %s",
  async (answer) => {
    const scene = createLease({ renew: () => scene.answerAfter(100, answer) });
    await scene.advanceTo(350);
    scene.lease.stop();
    await scene.advanceTo(5_000);
    expect(scene.renewedAt).toEqual([300]);
    expect(scene.lost).toEqual([]);
    expect(scene.armedTimers()).toBe(0);
    expect(scene.lease.signal().aborted).toBe(false);
  },
);

test("does not retry a renewal that fails after the lease was stopped", async () => {
  const scene = createLease({
    renew: () => scene.answerAfter(100, true).then(() => Promise.reject(new Error("away"))),
  });
  await scene.advanceTo(350);
  scene.lease.stop();
  await scene.advanceTo(5_000);
  expect(scene.renewedAt).toEqual([300]);
  expect(scene.armedTimers()).toBe(0);
});

test("a renewal that succeeds after the lease was lost does not restore it", async () => {
  const scene = createLease({ renew: () => scene.answerAfter(600, true) });
  await scene.advanceTo(5_000);
  expect(scene.renewedAt).toEqual([300]);
  expect(scene.lost).toEqual([["not-renewed", 810]]);
  expect(scene.lease.isLost()).toBe(true);
});

test("a lease is lost once, for the first reason, and never after it was stopped", () => {
  const twice = createLease();
  const signal = twice.lease.signal();
  twice.lease.lose("guard-closed");
  twice.lease.lose("ran-too-long");
  expect(twice.lost).toEqual([["guard-closed", 0]]);
  expect(signal.reason).toBe("guard-closed");
  expect(twice.lease.isLost()).toBe(true);

  const stopped = createLease();
  const quiet = stopped.lease.signal();
  stopped.lease.stop();
  stopped.lease.lose("guard-closed");
  expect(stopped.lost).toEqual([]);
  expect(quiet.aborted).toBe(false);
  expect(stopped.lease.isLost()).toBe(false);
});

test("returns the same signal on every call, also after the loss", () => {
  const { lease } = createLease();
  const early = lease.signal();
  expect(lease.signal()).toBe(early);
  lease.lose("overtaken");
  expect(lease.signal()).toBe(early);
  expect(early.aborted).toBe(true);

  const late = createLease().lease;
  late.lose("overtaken");
  expect(late.signal().aborted).toBe(true);
  expect(late.signal().reason).toBe("overtaken");
});

test("a lease whose time is up is lost even if a blocked event loop fired no timer", () => {
  let now = 0;
  const blocked = { now: () => now, after: () => () => {} };
  const { lease } = createLease({ timer: blocked });
  const { lease: short } = createLease({ timer: blocked, maxRunMs: 500 });
  const isLostAt = (at: number) => {
    now = at;
    return [lease.isLost(), short.isLost()];
  };
  expect(isLostAt(499)).toEqual([false, false]);
  expect(isLostAt(500)).toEqual([false, true]);
  expect(isLostAt(809)).toEqual([false, true]);
  expect(isLostAt(810)).toEqual([true, true]);
});

test("an attempt without a claim has nothing to renew, and can only exceed its running time", async () => {
  const { renewedAt, lost, advanceTo } = createLease({ sentAt: undefined, maxRunMs: 2_000 });
  await advanceTo(5_000);
  expect(renewedAt).toEqual([]);
  expect(lost).toEqual([["ran-too-long", 2_000]]);
});

test("a timer that fires slightly early sends no renewal early, and none twice", async () => {
  const world = createWorld();
  const early = {
    now: world.now,
    after: (ms: number, action: () => void) => world.after(Math.max(0.5, ms - 1), action),
  };
  const renewedAt: number[] = [];
  const lost: number[] = [];
  const renew = () => {
    renewedAt.push(world.now());
    return new Promise<boolean>(() => {});
  };
  const lease = new Lease({
    timer: early,
    leaseMs: LEASE_MS,
    maxRunMs: 60_000,
    sentAt: 0,
    renew,
    onLost: () => lost.push(world.now()),
  });
  await world.run(() => false);
  expect(renewedAt).toEqual([300]);
  expect(lost).toEqual([810]);
  expect(lease.isLost()).toBe(true);
});

test("a lease on hold is set once for the whole time, and renews no more until it is resumed", async () => {
  const { lease, renewedAt, renewedFor, lost, advanceTo } = createLease();
  await advanceTo(100);
  expect(await lease.hold(5_000)).toBe(true);
  expect(await lease.renew()).toBe(true);
  await advanceTo(3_000);
  expect([renewedAt, renewedFor]).toEqual([[100], [5_000]]);
  lease.resume();
  await advanceTo(3_700);
  expect(renewedAt).toEqual([100, 3_000, 3_300, 3_600]);
  expect(renewedFor.slice(1)).toEqual([LEASE_MS, LEASE_MS, LEASE_MS]);
  expect(lost).toEqual([]);
});

test("after a short hold the next renewal comes when it would have come", async () => {
  const { lease, renewedAt, advanceTo } = createLease();
  await advanceTo(100);
  await lease.hold(5_000);
  await advanceTo(150);
  lease.resume();
  await advanceTo(450);
  expect(renewedAt).toEqual([100, 400]);
});

test("a lease on hold ends like any other, and is lost if the store says so", async () => {
  const { lease, lost, advanceTo } = createLease();
  await lease.hold(1_000);
  await advanceTo(2_000);
  expect(lost).toEqual([["not-renewed", 900]]);
  const overtaken = createLease({ renew: () => Promise.resolve(false) });
  expect(await overtaken.lease.hold(5_000)).toBe(false);
  expect(overtaken.lost).toEqual([["overtaken", 0]]);
});

test("hold waits for a renewal that is on its way, since that one would shorten the lease", async () => {
  const scene = createLease({ renew: (ms) => scene.answerAfter(ms === LEASE_MS ? 200 : 0, true) });
  await scene.advanceTo(350);
  const held = scene.lease.hold(5_000);
  await scene.advanceTo(600);
  expect(await held).toBe(true);
  expect([scene.renewedAt, scene.renewedFor]).toEqual([
    [300, 500],
    [LEASE_MS, 5_000],
  ]);
});

test("a renewal after a longer lease shortens it from when it was sent, even if its answer is lost", async () => {
  const scene = createLease({
    renew: (ms) => (ms === LEASE_MS ? new Promise(() => {}) : Promise.resolve(true)),
  });
  await scene.lease.hold(60_000);
  await scene.advanceTo(400);
  scene.lease.resume();
  await scene.advanceTo(5_000);
  expect(scene.renewedAt).toEqual([0, 400]);
  expect(scene.lost).toEqual([["not-renewed", 400 + 810]]);
});

test("after a renewal or a claim without an answer, a hold counts on no more than one of those may leave when it arrives late", async () => {
  const scene = createLease({
    renew: (ms) => (ms === LEASE_MS ? Promise.reject(new Error("away")) : Promise.resolve(true)),
  });
  await scene.advanceTo(350);
  expect(await scene.lease.hold(60_000)).toBe(true);
  await scene.advanceTo(5_000);
  expect([scene.renewedAt, scene.lost]).toEqual([[300, 350], [["not-renewed", 350 + 810]]]);
  const repeated = createLease({ isClaimRepeated: true });
  expect(await repeated.lease.hold(60_000)).toBe(true);
  await repeated.advanceTo(5_000);
  expect([repeated.renewedFor, repeated.lost]).toEqual([[60_000], [["not-renewed", 810]]]);
});

test("a lease that is long enough is not renewed for the hold", async () => {
  const { lease, renewedAt, advanceTo } = createLease();
  await lease.hold(5_000);
  await lease.hold(LEASE_MS);
  lease.resume();
  await advanceTo(100);
  expect(renewedAt).toEqual([0]);
});

test("a hold that the store does not answer rejects, and the renewals go on", async () => {
  const answers = [() => Promise.reject(new Error("away")), () => Promise.resolve(true)];
  const { lease, renewedAt, lost, advanceTo } = createLease({
    renew: () => (answers.shift() ?? (() => Promise.resolve(true)))(),
  });
  await expect(lease.hold(5_000)).rejects.toThrow("away");
  lease.resume();
  await advanceTo(700);
  expect(renewedAt).toEqual([0, 300, 600]);
  expect(lost).toEqual([]);
});
