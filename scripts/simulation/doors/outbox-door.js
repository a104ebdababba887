/**
 * The relay of an outbox over the real statements of SQLite, on one connection in memory: producers commit and roll back,
 * relays are cut off, paused and stopped, and receivers fail, hang, or fail after they have the message.
 *
 *   committed     only messages of committed transactions are delivered
 *   delivered     each of them is delivered at least once, or parked
 *   in-order      a message is delivered only after every earlier one of its key was
 *   one-relay     no relay is given a message while another one's lease holds, and a relay that lost it settles nothing
 *   tries         a message is parked only if its attempts are used up, or its receiver said that it never can take it
 */
import { DatabaseSync } from "@photostructure/sqlite";
import { createLink } from "./random-faults.js";

/** @typedef {import("./stage.js").Stage} Stage */
/** @typedef {import("./stage.js").Play} Play */
/** @typedef {import("./virtual-time.js").SimulatedProcess} SimulatedProcess */
/** @typedef {import("../../../packages/nevertwice/src/outbox/store.ts").OutboxStore} OutboxStore */
/** @typedef {import("../../../packages/nevertwice/src/outbox/store.ts").OutboxSettlement} OutboxSettlement */
/** @typedef {import("../../../packages/nevertwice/src/outbox/sqlite/connection.ts").OutboxConnection} OutboxConnection */
/** @typedef {import("../../../packages/nevertwice/src/outbox/relay.ts").Relay} Relay */

/**
 * @typedef {object} Sent
 * @property {string} id
 * @property {string | undefined} key
 * @property {number} order
 * @property {boolean} isCommitted
 * @property {boolean} isReceived
 * @property {boolean} isPermanent
 * @property {boolean} isParked
 * @property {number} attempts of its last claim
 */

/** @typedef {{ readonly id: string, readonly token: string, until: number }} Holder */

const NAMESPACE = "simulation";
const CALL_MS = 400;

/** One connection for all schedules of this thread: to open one takes longer than a schedule. @type {{ connection: OutboxConnection, insert: ReturnType<Stage["library"]["createInsert"]>, database: any } | undefined} */
let opened;

/** @param {Stage["library"]} library */
function openDatabase({ connectOutbox, createInsert }) {
  if (opened === undefined) {
    /** @type {any} */
    const database = new DatabaseSync(":memory:");
    const clock = { now: () => Date.now() };
    const connection = connectOutbox(database, { clock, waiting: (action) => action() });
    opened = { connection, insert: createInsert(database, clock), database };
  }
  opened.database.exec("DELETE FROM nevertwice_outbox");
  return opened;
}

/** @param {Stage} stage @returns {Play} */
export function outboxDoor(stage) {
  const { random, world, fail, tell, count, library, times } = stage;
  const { connection, insert, database } = openDatabase(library);
  const settings = {
    leaseMs: times.leaseMs,
    concurrency: random.pick([1, 2, 16]),
    batch: random.pick([1, 3, 200]),
    deliverMs: random.pick([150, 600]),
    pollMs: 100,
    maxAttempts: random.pick([2, 4, 20]),
    drainMs: random.pick([0, 300]),
    retry: { baseMs: 30, capMs: 200 },
  };
  const failing = random.pick([0, 0.15, 0.5]);
  /** @type {Map<string, Sent>} */
  const messages = new Map();
  /** @type {Map<string, Holder>} */
  const holders = new Map();
  let transactions = 0;

  /** @param {SimulatedProcess} process @returns {OutboxStore} */
  function storeFor(process) {
    const sent = createLink(stage.network, process);
    /** The databases end a call that is not answered. @template T @param {() => Promise<T>} call @returns {Promise<T>} */
    const link = (call) =>
      new Promise((resolve, reject) => {
        sent(call).then(resolve, reject);
        world.after(CALL_MS, () => reject(new Error("the database did not answer")));
      });
    /** @type {any} */
    const store = {
      claim: (/** @type {any} */ request) =>
        link(async () => noteClaim(process, request, connection.claim(request))),
      settle: (/** @type {any} */ request) => link(async () => settle(request)),
      renew: (/** @type {any} */ held, /** @type {number} */ leaseMs) =>
        link(async () => renew(held, leaseMs)),
      repair: (/** @type {string} */ namespace) => link(async () => connection.repair(namespace)),
    };
    return store;
  }

  /**
   * @param {SimulatedProcess} process
   * @param {Parameters<OutboxStore["claim"]>[0]} request
   * @param {ReturnType<OutboxConnection["claim"]>} reply
   */
  function noteClaim({ name }, { token, leaseMs }, reply) {
    for (const { seq, id, attempts } of reply.messages) {
      const before = holders.get(seq);
      if (before !== undefined && world.wall() < before.until)
        fail("one-relay", `${name} was given ${id} while another relay's lease holds`);
      holders.set(seq, { id, token, until: world.wall() + leaseMs });
      const message = messages.get(id);
      if (message !== undefined) message.attempts = attempts;
      tell(() => `${name} claims ${id}, attempt ${attempts}`);
    }
    return reply;
  }

  /** @param {OutboxSettlement} request */
  function settle(request) {
    const isHeld = (/** @type {{ seq: string, token: string }} */ row) =>
      holders.get(row.seq)?.token === row.token;
    const own = request.delivered.filter(isHeld).length;
    const settled = connection.settle(request);
    if (settled.deleted > own) fail("one-relay", "a relay that had lost a message has deleted it");
    for (const row of request.parked) if (isHeld(row)) notePark(holders.get(row.seq)?.id ?? "");
    for (const row of [...request.delivered, ...request.failed, ...request.parked, ...request.released])
      if (isHeld(row)) holders.delete(row.seq);
    return settled;
  }

  /** @param {string} id */
  function notePark(id) {
    const message = messages.get(id);
    if (message === undefined) return;
    count("parked");
    message.isParked = true;
    if (!message.isPermanent && message.attempts < settings.maxAttempts)
      fail("tries", `${id} is parked after attempt ${message.attempts} of ${settings.maxAttempts}`);
  }

  /** @param {readonly { seq: string, token: string }[]} held @param {number} leaseMs */
  function renew(held, leaseMs) {
    const renewed = connection.renew(held, leaseMs);
    for (const seq of renewed) {
      const holder = holders.get(seq);
      // A relay may hold a message twice, when it has claimed it again before its settlement was answered.
      const isOwn = held.some((row) => row.seq === seq && row.token === holder?.token);
      if (holder === undefined || !isOwn) fail("one-relay", "a relay has renewed a message that it had lost");
      else holder.until = world.wall() + leaseMs;
    }
    return renewed;
  }

  /** @param {SimulatedProcess} process */
  function open(process) {
    const app = { relay: startRelay(process) };
    return app;
  }

  /** @param {SimulatedProcess} process @returns {Relay} */
  function startRelay(process) {
    const context = {
      store: storeFor(process),
      namespace: NAMESPACE,
      isSealed: false,
      open: (/** @type {string} */ _, /** @type {string} */ content) => ({ headers: {}, body: content }),
    };
    const relay = library.createRelay(
      context,
      library.toRelaySettings({
        ...settings,
        deliver: ({ id, key }, { attempt }) => receive(process, id, key, attempt),
      }),
    );
    relay.start();
    return relay;
  }

  /** @param {SimulatedProcess} process @param {string} id @param {string | undefined} key @param {number} attempt */
  async function receive({ name }, id, key, attempt) {
    tell(() => `${name} delivers ${id} of ${key}`);
    count("delivery");
    const message = messages.get(id);
    if (message === undefined || !message.isCommitted)
      return fail("committed", `${id} was delivered and never committed`);
    for (const other of messages.values())
      if (
        key !== undefined &&
        other.key === key &&
        other.order < message.order &&
        other.isCommitted &&
        !other.isReceived
      )
        fail("in-order", `${id} is delivered before ${other.id}`);
    if (attempt > settings.maxAttempts) fail("tries", `attempt ${attempt} of ${settings.maxAttempts}`);
    const isWell = stage.isHealed() || !random.chance(failing);
    await stage.sleep(isWell ? random.between(0, 120) : random.pick([0, 50, 700]));
    if (isWell || random.chance(0.3)) {
      if (message.isReceived) count("received again");
      message.isReceived = true;
      tell(() => `${id} is received`);
    }
    if (isWell) return undefined;
    message.isPermanent ||= random.chance(0.1);
    if (message.isPermanent) throw library.permanent(new Error("never"));
    throw new Error("not now");
  }

  /** One transaction of a producer. */
  function produce() {
    const isCommitted = random.chance(0.8);
    const transaction = transactions++;
    const written = Array.from({ length: random.between(1, 4) }, (_, index) => {
      const id = `m${transaction}.${index}`;
      const key = random.pick([undefined, "k1", "k1", "k2"]);
      const order = messages.size;
      messages.set(id, {
        id,
        key,
        order,
        isCommitted,
        isReceived: false,
        isPermanent: false,
        isParked: false,
        attempts: 0,
      });
      return { id, scope: "", topic: "paid", key, content: id };
    });
    database.exec("BEGIN");
    insert(NAMESPACE, written);
    database.exec(isCommitted ? "COMMIT" : "ROLLBACK");
    tell(
      () =>
        `${isCommitted ? "committed" : "rolled back"}: ${written.map(({ id, key }) => `${id} of ${key}`).join(", ")}`,
    );
    count(isCommitted ? "committed" : "rolled back");
  }

  function plan() {
    const transactionsPlanned = random.between(1, 5);
    for (let index = 0; index < transactionsPlanned; index++)
      world.after(random.between(0, 2_500), produce, null);
  }

  /** A message may wait for a parked one of its key. @param {Sent} message */
  const isBlocked = ({ key, order }) =>
    [...messages.values()].some(
      (other) => other.isParked && key !== undefined && other.key === key && other.order < order,
    );

  const left = () =>
    [...messages.values()].filter(
      (message) => message.isCommitted && !message.isReceived && !message.isParked && !isBlocked(message),
    );

  return {
    open,
    plan,
    purge({ slot }) {
      const { process } = /** @type {import("./stage.js").Slot} */ (stage.slots[slot]);
      // Stopped, and another one started, as in a rolling update.
      world.after(
        0,
        async () => {
          const app = await process.app;
          tell(() => `${process.name} stops its relay`);
          await app.relay.stop();
          app.relay = startRelay(process);
        },
        process,
      );
    },
    heal() {
      // What waits for a time would wait for as long as the clock is behind.
      world.jump(Math.max(0, world.behindMs()));
    },
    isDone: () => left().length === 0 && connection.figures(NAMESPACE).undelivered === parkedOrBlocked(),
    check() {
      for (const { id, key } of left())
        fail("delivered", `${id} of ${key} was committed, and never delivered`);
    },
    scenario: { settings, failing },
  };

  function parkedOrBlocked() {
    return [...messages.values()].filter(
      (message) => message.isCommitted && (message.isParked || isBlocked(message)),
    ).length;
  }
}
