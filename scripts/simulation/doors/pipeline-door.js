/**
 * A pipeline of nodes with keys, behind a broker that delivers again what it has no verdict of, some of it twice at once:
 * an order is taken, each of its items is priced, and each item is shipped and billed.
 *
 *   one-run      no node runs for a key whose completion is kept
 *   as-said      a node's key is settled as its run ended
 *   all-settled  an order is acknowledged only after each node has done each of its items
 *   same-child   a child has the same id and the same payload on every delivery, and no two children have one id
 *   a-verdict    every delivery ends with a verdict, and every order is acknowledged in the end
 */
import { createBroker } from "./broker.js";
import { subjectOf } from "./ledger.js";
import { createRuns } from "./runs.js";

/** @typedef {import("./stage.js").Stage} Stage */
/** @typedef {import("./stage.js").Play} Play */
/** @typedef {import("./virtual-time.js").SimulatedProcess} SimulatedProcess */
/** @typedef {import("./runs.js").Run} Run */
/** @typedef {import("../../../packages/nevertwice/src/pipeline/model.ts").NetworkModel} NetworkModel */
/** @typedef {import("../../../packages/nevertwice/src/pipeline/model.ts").NodeModel} NodeModel */
/** @typedef {import("../../../packages/nevertwice/src/pipeline/model.ts").ShellContext} ShellContext */
/** @typedef {import("../../../packages/nevertwice/src/pipeline/pipeline.ts").Pipeline} Pipeline */
/** @typedef {{ readonly id: string, readonly items: number }} Order */
/** @typedef {{ readonly id: string, readonly item: string, readonly items: number }} Work what a node gets */

const NETWORK = "shop";
const ITEM_NODES = ["price", "ship", "bill"];

/** @param {Stage} stage @returns {Play} */
export function pipelineDoor(stage) {
  const { random, ledger, fail, tell, count, library, times } = stage;
  // A node's outcome names its run by the fence.
  const runs = createRuns(stage, ({ fence }) => String(fence));
  const policy = {
    leaseMs: times.leaseMs,
    retentionMs: 600_000,
    storeTimeoutMs: random.pick([20, 60, 130]),
    completeWaitMs: random.pick([0, 30, 100]),
    maxRunMs: random.pick([300, 1_000]),
    waitMs: random.pick([50, 300]),
  };
  const failing = random.pick([0, 0.1, 0.4]);
  const lasting = random.pick([5, 40, 150]);
  const concurrency = random.pick([1, 4]);
  const buffer = random.pick([1, 100]);
  /** The id of each child, by what it is about; and the other way round. @type {Map<string, string>} */
  const children = new Map();
  /** @type {Map<string, string>} */
  const subjects = new Map();
  /** @type {Set<string>} */
  const effects = new Set();
  const broker = createBroker(stage, deliver);
  ledger.watch({
    granted: ({ subject, fence, owner }) =>
      tell(() => `store: ${subject} is granted to ${owner} under ${fence}`),
    ended(attempt) {
      tell(() => `store: ${attempt.subject} under ${attempt.fence} is ${attempt.end?.kind}`);
      // The settlements belong to the network itself.
      if (nodeOf(attempt.subject) !== undefined) runs.ended(attempt);
    },
  });

  /** The record of a node's key. @param {string} node @param {string} key */
  const recordOf = (node, key) => ({
    scope: `${NETWORK}|${node}`,
    operation: `${NETWORK}/${node}`,
    key,
  });
  /** @param {string} subject */
  const nodeOf = (subject) =>
    ["take", ...ITEM_NODES].find((node) => subject.includes(`|${recordOf(node, "").operation}|`));

  /** @param {SimulatedProcess} process */
  function open(process) {
    const guard = library.createEngine({ store: stage.storeFor(process), purgeEveryMs: 0, ...policy });
    return library.startPipeline(networkOf(process), guard, { drainMs: 100 });
  }

  /** @param {SimulatedProcess} process @returns {NetworkModel} */
  function networkOf(process) {
    const nodes = [
      nodeModel(process, "take", "id", ["items"]),
      nodeModel(process, "price", "item", ["priced"]),
      nodeModel(process, "ship", "item", []),
      nodeModel(process, "bill", "item", []),
    ];
    const edge = (/** @type {string} */ node, /** @type {string} */ port, /** @type {string} */ to) => ({
      from: { node, port },
      to: { node: to, port: "in" },
    });
    return {
      id: NETWORK,
      version: "1.0.0",
      nodes: new Map(nodes.map((node) => [node.name, node])),
      edges: [
        edge("take", "items", "price"),
        edge("price", "priced", "ship"),
        edge("price", "priced", "bill"),
      ],
      exposed: { in: new Map([["orders", { node: "take", port: "in" }]]), out: new Map() },
      supervision: { strategy: "one-for-one", restarts: 3, withinMs: 5_000 },
    };
  }

  /**
   * @param {SimulatedProcess} process
   * @param {string} name
   * @param {string} field of the payload: the key
   * @param {readonly string[]} out
   * @returns {NodeModel}
   */
  function nodeModel(process, name, field, out) {
    const shell = (/** @type {Work} */ work, /** @type {ShellContext} */ context) =>
      run(process, name, work, context);
    /** @type {any} */
    const model = {
      name,
      id: name,
      version: "1.0.0",
      doc: {},
      effects: new Map(),
      config: {},
      reply: false,
      concurrency,
      kind: out.length === 0 ? "sink" : "transform",
      in: new Map([["in", { schema: undefined, buffer }]]),
      out: new Map(out.map((port) => [port, { schema: undefined }])),
      contract: {
        pureCore: (/** @type {unknown} */ payload) => payload,
        effectShell: shell,
        idempotency: { fields: [field] },
      },
    };
    return model;
  }

  /** @param {SimulatedProcess} process @param {string} node @param {Work} work @param {ShellContext} context */
  async function run(process, node, work, { id, fence = 0, emit }) {
    const key = node === "take" ? work.id : work.item;
    const run = runs.begin({ ...recordOf(node, key), fence, process: process.name, detail: {} });
    if (node !== "take") noteChild(`${node === "price" ? "take" : "price"} ${key}`, id);
    await stage.sleep(random.between(0, lasting));
    if (!stage.isHealed() && random.chance(failing)) {
      runs.end(run, "release");
      throw new Error(run.id);
    }
    effects.add(`${node} ${key}`);
    await stage.sleep(random.between(0, lasting));
    runs.end(run, "keep");
    if (node === "take")
      return Array.from({ length: work.items }, (_, item) =>
        emit("items", { ...work, item: `${work.id}-${item}` }),
      );
    return node === "price" ? emit("priced", work) : undefined;
  }

  /** What one node emitted about one item is one child, whichever nodes get it. @param {string} about @param {string} id */
  function noteChild(about, id) {
    if ((children.get(about) ?? id) !== id) fail("same-child", `the child of ${about} has got another id`);
    if ((subjects.get(id) ?? about) !== about)
      fail("same-child", `the children of ${subjects.get(id)} and ${about} have one id`);
    children.set(about, id);
    subjects.set(id, about);
  }

  /** @param {Pipeline} pipeline @param {Order} order @param {SimulatedProcess} process */
  async function deliver(pipeline, order, process) {
    const outcome = await pipeline.push("orders", { ...order, item: "" }, { id: order.id });
    const [failure] = outcome.failures;
    tell(() => `${process.name}: ${order.id} ${outcome.verdict} ${failure?.reason ?? ""}`);
    count(`order ${outcome.verdict} ${outcome.isDuplicate ? "duplicate" : (failure?.phase ?? "")}`);
    if (outcome.verdict === "acknowledge") judge(order);
    if (outcome.verdict === "reject") fail("a-verdict", `${order.id} was rejected: ${failure?.reason}`);
    return { verdict: outcome.verdict, afterMs: 50 };
  }

  /** @param {Order} order */
  function judge({ id, items }) {
    requireDone("take", id);
    for (let item = 0; item < items; item++)
      for (const node of ITEM_NODES) requireDone(node, `${id}-${item}`);
  }

  /** The store may not have its completion yet: its process goes on telling it. @param {string} node @param {string} key */
  function requireDone(node, key) {
    const all = runs.all(subjectOf(recordOf(node, key)));
    if (!effects.has(`${node} ${key}`) || !all.some((run) => run.disposition === "keep"))
      fail("all-settled", `the order is acknowledged, and ${node} of ${key} is not done`);
  }

  function plan() {
    const orders = random.between(1, 3);
    for (let order = 0; order < orders; order++)
      broker.publish(random.between(0, 400), { id: `order-${order}`, items: random.between(1, 3) });
  }

  function check() {
    broker.checkAnswers();
    for (const { message, verdict } of broker.messages)
      if (verdict !== "acknowledge") fail("a-verdict", `${message.id} was never acknowledged`);
  }

  return { open, plan, check, scenario: { policy, failing, lasting, concurrency, buffer } };
}
