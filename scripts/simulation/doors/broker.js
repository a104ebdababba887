/** A broker outside of all processes: it delivers a message again until it has a verdict that it keeps. */

/** @typedef {import("./stage.js").Stage} Stage */
/** @typedef {import("./virtual-time.js").SimulatedProcess} SimulatedProcess */
/** @typedef {{ readonly verdict: "acknowledge" | "later" | "reject", readonly afterMs?: number | undefined }} Verdict */

/**
 * @template Message
 * @typedef {object} BrokerMessage
 * @property {Message} message
 * @property {"acknowledge" | "reject" | undefined} verdict
 * @property {number} deliveries
 */

/**
 * @template Message
 * @param {Stage} stage
 * @param {(app: any, message: Message, process: SimulatedProcess) => Promise<Verdict>} handle never rejects
 */
export function createBroker(stage, handle) {
  const { world, random, fail, tell, count } = stage;
  const invisibleMs = random.pick([150, 400, 1_000]);
  const lostVerdicts = random.pick([0, 0, 0.2]);
  /** @type {BrokerMessage<Message>[]} */
  const messages = [];
  /** @type {{ process: SimulatedProcess, isAnswered: boolean }[]} */
  const deliveries = [];

  /** @param {BrokerMessage<Message>} entry */
  function deliver(entry) {
    if (entry.verdict !== undefined) return;
    entry.deliveries++;
    let isOpen = true;
    const again = (/** @type {number} */ ms) => {
      if (isOpen) world.after(ms, () => deliver(entry), null);
      isOpen = false;
    };
    const delivery = { process: /** @type {any} */ (undefined), isAnswered: false };
    stage.send(
      stage.pickSlot(),
      async (app, process) => {
        delivery.process = process;
        deliveries.push(delivery);
        const verdict = await handle(app, entry.message, process);
        delivery.isAnswered = true;
        count(`verdict ${verdict.verdict}`);
        return verdict;
      },
      ({ verdict, afterMs = 50 }) => {
        if (!stage.isHealed() && random.chance(lostVerdicts)) return;
        if (verdict === "later") return again(Math.min(afterMs, 500));
        tell(() => `broker: ${verdict} ${JSON.stringify(entry.message)}`);
        entry.verdict ??= verdict;
      },
      (error) => fail("a-verdict", `a delivery ended with an error: ${String(error)}`),
    );
    world.after(invisibleMs, () => again(0), null);
    // Some brokers deliver a message a second time meanwhile.
    if (random.chance(0.1) && entry.deliveries < 10)
      world.after(random.between(0, 60), () => deliver(entry), null);
  }

  return {
    messages,
    /** @param {number} at @param {Message} message */
    publish(at, message) {
      const entry = { message, verdict: undefined, deliveries: 0 };
      messages.push(entry);
      world.after(at, () => deliver(entry), null);
    },
    /** Every delivery to a living process has a verdict. */
    checkAnswers() {
      for (const { process, isAnswered } of deliveries)
        if (!process.isDead && !isAnswered) fail("a-verdict", `a delivery to ${process.name} never ended`);
    },
  };
}
