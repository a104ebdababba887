/**
 * Two consumers of the same messages, on a broker that delivers again what it has no verdict of, some of it twice at once,
 * and messages that use another one's key.
 *
 *   one-run      no work runs for a message whose completion is kept
 *   as-said      a message is settled as its work ended
 *   ack-is-done  an acknowledged message is completed, by this consumer and with this content; its value is that of the run
 *   tries        a message is rejected exactly when its attempts are used up, or its error is permanent
 *   a-verdict    every delivery ends with a verdict, and every message is acknowledged or rejected in the end
 */
import { createBroker } from "./broker.js";
import { subjectOf } from "./ledger.js";
import { createRuns } from "./runs.js";

/** @typedef {import("./stage.js").Stage} Stage */
/** @typedef {import("./stage.js").Play} Play */
/** @typedef {import("./virtual-time.js").SimulatedProcess} SimulatedProcess */
/** @typedef {import("./runs.js").Run} Run */
/** @typedef {import("../../../packages/nevertwice/src/core/attempt.ts").Attempt} Attempt */
/** @typedef {import("../../../packages/nevertwice/src/core/engine.ts").Engine} Engine */
/** @typedef {import("../../../packages/nevertwice/src/events/delivery.ts").Delivery<any>} Delivery */
/** @typedef {{ readonly consumer: string, readonly key: string, readonly content: string }} Message */
/** @typedef {{ last: Run | undefined }} OpenDelivery the last run of a delivery */

const OPERATION = "handle";
const CONSUMERS = ["mail", "bill"];

/** @param {Stage} stage @returns {Play} */
export function consumerDoor(stage) {
  const { random, ledger, fail, tell, count, library, times } = stage;
  const runs = createRuns(stage);
  const maxAttempts = random.pick([undefined, 1, 2, 3]);
  const policy = {
    leaseMs: times.leaseMs,
    retentionMs: 30_000,
    storeTimeoutMs: random.pick([20, 60, 130]),
    completeWaitMs: random.pick([0, 30, 100]),
    maxRunMs: random.pick([150, 500]),
    onLapsed: random.pick(/** @type {const} */ (["takeover", "takeover", "hold"])),
    onFailure: random.pick(/** @type {const} */ (["release", "release", "remember", "unknown"])),
  };
  const retry = { max: random.pick([0, 0, 1, 2]), baseMs: 5, capMs: 20 };
  const failing = random.pick([0.1, 0.4, 0.8]);
  const lasting = random.pick([5, 60, 200]);
  ledger.watch({ ended: runs.ended });
  const broker = createBroker(stage, deliver);

  /** @param {SimulatedProcess} process */
  function open(process) {
    const guard = library.createEngine({ store: stage.storeFor(process), purgeEveryMs: 0 });
    const open = CONSUMERS.map((name) => {
      /** @type {WeakMap<Message, OpenDelivery>} */
      const deliveries = new WeakMap();
      const own = library.consumer(guard, {
        ...policy,
        name,
        operation: OPERATION,
        key: (/** @type {Message} */ message) => message.key,
        fingerprint: (/** @type {Message} */ message) => message.content,
        work: (message, attempt, tried) => work(process, deliveries, message, attempt, tried.number),
        isPermanent: (error) => String(error).includes("permanent"),
        maxAttempts,
        retry,
        laterMs: 20,
        maxLaterMs: 100,
      });
      return [name, { own, deliveries, guard }];
    });
    return Object.fromEntries(open);
  }

  /**
   * @param {SimulatedProcess} process
   * @param {WeakMap<Message, OpenDelivery>} deliveries
   * @param {Message} message
   * @param {Attempt} attempt
   * @param {number} number
   */
  async function work(process, deliveries, message, attempt, number) {
    const delivery = /** @type {OpenDelivery} */ (deliveries.get(message));
    // The tries of one delivery are one run: they have one claim.
    const run = number > 1 && delivery.last !== undefined ? delivery.last : begin(process, message, attempt);
    delivery.last = run;
    run.disposition = undefined;
    run.detail.tries = number;
    await stage.sleep(random.between(0, lasting));
    if (stage.isHealed() || !random.chance(failing)) {
      runs.end(run, "keep");
      return { run: run.id };
    }
    const isPermanent = random.chance(0.1);
    run.detail.isPermanent = isPermanent;
    runs.end(run, policy.onFailure === "remember" ? "keep" : policy.onFailure);
    throw new Error(`${run.id} ${isPermanent ? "permanent" : "failed"}`);
  }

  /** @param {SimulatedProcess} process @param {Message} message @param {Attempt} attempt */
  function begin(process, { consumer, key, content }, { fence, number }) {
    const detail = { consumer, content, number, isPermanent: false, tries: 1 };
    // The scope of messages without a tenant is the name of the consumer.
    const parts = { scope: consumer, operation: OPERATION, key };
    return runs.begin({ ...parts, fence, process: process.name, detail });
  }

  /** @param {any} app @param {Message} given @param {SimulatedProcess} process */
  async function deliver(app, given, process) {
    const { own, deliveries, guard } = app[given.consumer];
    const message = { ...given };
    /** @type {OpenDelivery} */
    const opened = { last: undefined };
    deliveries.set(message, opened);
    const delivery = await own.handle(message);
    tell(() => `${process.name}: ${message.consumer} ${message.key} ${delivery.status} ${delivery.verdict}`);
    count(`delivery ${delivery.status} ${delivery.verdict}`);
    judge(message, delivery, opened.last);
    if (delivery.status === "unknown" && stage.isHealed()) await decide(guard, message, delivery.fence);
    // The message that has the key may wait for a decision for ever: the operator removes the other one.
    const isHopeless = delivery.status === "conflict" && stage.isHealed();
    return isHopeless ? { verdict: /** @type {const} */ ("reject") } : delivery;
  }

  /** The operator: what is held is to be done again. @param {Engine} guard @param {Message} message @param {number} fence */
  async function decide(guard, { consumer, key }, fence) {
    const subject = { operation: OPERATION, scope: consumer, key };
    runs.decide(subjectOf(subject));
    await guard.resolve({ ...subject, fence }, { status: "not-done" });
  }

  /** @param {Message} message @param {Delivery} delivery @param {Run | undefined} last the last run of this delivery */
  function judge(message, delivery, last) {
    switch (delivery.status) {
      case "done":
        if (last === undefined || last.id !== delivery.value.run)
          fail("ack-is-done", "done with the value of another run");
        else if (delivery.recorded && !isDone(last))
          fail("ack-is-done", `${last.id} is acknowledged as recorded, and it is not completed`);
        return;
      case "done-before":
        return judgeDoneBefore(message, delivery.value);
      case "failed":
        return judgeFailed(delivery, last);
      case "failed-before":
        if (policy.onFailure !== "remember")
          fail("tries", "rejected for an earlier failure, which is not kept");
        return;
      case "refused":
        return fail("tries", `a message was refused: ${String(delivery.error)}`);
      case "conflict":
        return judgeConflict(message, delivery);
      default:
        judgeOther(delivery);
    }
  }

  /** The types say that it is sent again later; the code may say something else. @param {Delivery} delivery */
  function judgeOther({ status, verdict }) {
    if (verdict !== "later") fail("ack-is-done", `${status} is no reason to ${verdict}`);
  }

  /** @param {Run} run */
  function isDone(run) {
    return runs.completed(run) !== undefined && run.disposition === "keep";
  }

  /** @param {Message} message @param {{ run: string } | undefined} value */
  function judgeDoneBefore(message, value) {
    const run = value && runs.get(value.run);
    if (run === undefined) return fail("ack-is-done", "acknowledged without a run");
    if (!isDone(run)) fail("ack-is-done", `acknowledged because of ${run.id}, which is not completed`);
    const { consumer, content } = run.detail;
    if (consumer !== message.consumer || content !== message.content)
      fail("ack-is-done", `acknowledged because of ${run.id} of ${consumer}, which is about ${content}`);
  }

  /** @param {Extract<Delivery, { status: "failed" }>} delivery @param {Run | undefined} last */
  function judgeFailed({ verdict, error }, last) {
    if (last === undefined || !String(error).includes(last.id))
      return fail("tries", "failed with an error that its work did not throw");
    const { number, isPermanent, tries } = last.detail;
    const isUsedUp = maxAttempts !== undefined && number >= maxAttempts;
    if ((verdict === "reject") !== (isUsedUp || isPermanent))
      fail(
        "tries",
        `${last.id} failed in attempt ${number} of ${maxAttempts}, and the verdict is ${verdict}`,
      );
    if (tries > retry.max + 1) fail("tries", `${last.id} was tried ${tries} times`);
  }

  /** @param {Message} message @param {Extract<Delivery, { status: "conflict" }>} delivery */
  function judgeConflict({ consumer, key, content }, { verdict }) {
    const isOther = (/** @type {Message} */ other) =>
      other.consumer === consumer && other.key === key && other.content !== content;
    if (!broker.messages.some(({ message }) => isOther(message)))
      fail("ack-is-done", "a conflict, although no other message has this key");
    const others = runs.all(subjectOf({ scope: consumer, operation: OPERATION, key }));
    const done = others.some((run) => run.detail.content !== content && runs.completed(run) !== undefined);
    if (verdict === "acknowledge" && !done)
      fail("ack-is-done", "a conflict was acknowledged before the other message was done");
  }

  function plan() {
    const messages = random.between(1, 3);
    for (let index = 0; index < messages; index++) {
      const key = random.pick(["m1", "m1", "m2"]);
      const content = random.chance(0.85) ? `content of ${key}` : "another content";
      const at = random.between(0, 300);
      const consumers = random.chance(0.6) ? CONSUMERS : ["mail"];
      for (const consumer of consumers) broker.publish(at, { consumer, key, content });
    }
  }

  function check() {
    broker.checkAnswers();
    for (const { message, verdict } of broker.messages) {
      const { consumer, key } = message;
      const all = runs.all(subjectOf({ scope: consumer, operation: OPERATION, key }));
      if (verdict === undefined) fail("a-verdict", `${consumer} ${key} is neither acknowledged nor rejected`);
      if (verdict === "acknowledge" && !all.some(({ disposition }) => disposition === "keep"))
        fail("ack-is-done", `${consumer} ${key} is acknowledged, and its work never returned`);
    }
  }

  return { open, plan, check, scenario: { policy, maxAttempts, retry, failing, lasting } };
}
