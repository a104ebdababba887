/**
 * Sagas: several callers call the same saga from several processes, and steps and undos fail, hang and are cut off.
 *
 *   decision      once it is decided that a saga is undone, no step of it runs; what is done stays done otherwise
 *   step-order    a step runs after those before it are done, and never again when it is done
 *   undo-order    steps are undone after the decision, the last one first, each until it is undone
 *   all-undone    every effect of an undone saga is undone, unless it is parked
 *   same-end      every caller gets the same end, with the outcomes that the steps returned
 *   answered      every call in a living process is answered, and every saga ends or is parked
 */
import { subjectOf } from "./ledger.js";
import { createSagaLog, SECOND_DECISION } from "./saga-log.js";

/** @typedef {import("./stage.js").Stage} Stage */
/** @typedef {import("./stage.js").Play} Play */
/** @typedef {import("./virtual-time.js").SimulatedProcess} SimulatedProcess */
/** @typedef {import("../../../packages/nevertwice/src/saga/saga-step.ts").RunContext} RunContext */
/** @typedef {import("../../../packages/nevertwice/src/saga/saga-step.ts").UndoContext} UndoContext */
/** @typedef {import("../../../packages/nevertwice/src/saga/saga-result.ts").SagaResult} SagaResult */
/** @typedef {"returned" | "threw" | "did-nothing" | "interrupted"} RunEnd */

const OPERATION = "trip";
const ENDS = ["done", "undone", "parked"];

/** @param {Stage} stage @returns {Play} */
export function sagaDoor(stage) {
  const { random, world, ledger, fail, tell, count, library, times } = stage;
  const steps = Array.from({ length: random.between(2, 4) }, (_, index) => ({
    name: `step-${index}`,
    hasUndo: random.chance(0.85),
  }));
  const policy = {
    leaseMs: times.leaseMs,
    retentionMs: 600_000,
    storeTimeoutMs: random.pick([20, 60, 130]),
    completeWaitMs: random.pick([0, 30, 100]),
    maxRunMs: random.pick([300, 1_000]),
    onLapsed: random.chance(0.15) ? /** @type {const} */ ("hold") : /** @type {const} */ ("takeover"),
    onPending: random.pick(/** @type {const} */ (["wait", "reject"])),
    waitMs: 100,
    retry: { max: random.pick([0, 0, 1]), baseMs: 5, capMs: 20 },
    undoRetry: { max: random.pick([0, 1, 3]), baseMs: 5, capMs: 20 },
  };
  const failing = random.pick([0.05, 0.2, 0.5]);
  const undoFailing = random.pick([0, 0.2, 0.6]);
  const lasting = random.pick([5, 40, 150]);
  const log = createSagaLog(steps);
  const subject = subjectOf({ scope: "", operation: OPERATION, key: "k1" });
  /** The effects of steps, by an attempt that had not been overtaken. @type {Set<string>} */
  const effects = new Set();
  /** How the last run of each step ended. @type {Map<string, RunEnd>} */
  const lastEnds = new Map();
  /** @type {SagaResult | undefined} */
  let end;
  let runs = 0;
  let probes = 0;
  /** @type {{ process: SimulatedProcess, isAnswered: boolean }[]} */
  const calls = [];

  ledger.watch({
    stepKept({ name, outcome }) {
      const wasDecided = log.decision() !== undefined;
      const why = log.add(name, outcome);
      tell(() => `kept: ${name} ${why ?? ""}`);
      count(`kept ${name.replace(/\d+/g, "n")}`);
      if (why !== undefined) {
        const isStep = !name.startsWith("saga: ");
        const invariant =
          wasDecided && (isStep || why === SECOND_DECISION)
            ? "decision"
            : isStep
              ? "step-order"
              : "undo-order";
        fail(invariant, `${name} was kept: ${why}`);
      }
      const decision = log.decision();
      if (!wasDecided && decision !== undefined && lastEnds.get(decision.step) === "interrupted")
        fail("decision", `a step that was only interrupted has decided the saga: ${decision.step}`);
    },
  });

  /** @param {SimulatedProcess} process */
  function open(process) {
    return library.createEngine({ store: stage.storeFor(process), purgeEveryMs: 0 });
  }

  const isCurrent = (/** @type {number} */ fence) => {
    const attempt = ledger.find(subject, fence);
    return attempt !== undefined && ledger.isCurrent(attempt);
  };

  function stepsOf() {
    return steps.map(({ name, hasUndo }) => ({
      name,
      run: (/** @type {RunContext} */ context) => run(name, context),
      ...(hasUndo && { undo: (/** @type {UndoContext} */ context) => undo(name, context) }),
    }));
  }

  /** @param {string} name @param {RunContext} context */
  async function run(name, context) {
    const id = `run-${runs++};`;
    tell(() => `${id} of ${name} under ${context.fence}`);
    count("run");
    const why = log.whyNotRun(name);
    if (why !== undefined && isCurrent(context.fence))
      fail(log.decision() === undefined ? "step-order" : "decision", `${name} runs: ${why}`);
    await stage.sleep(random.between(0, lasting));
    const isWell = stage.isHealed() || !random.chance(failing);
    const how = isWell
      ? "returned"
      : random.pick(/** @type {const} */ (["threw", "threw", "did-nothing", "interrupted"]));
    const hasEffect = how === "returned" || (how !== "did-nothing" && random.chance(0.6));
    if (hasEffect && isCurrent(context.fence)) effects.add(name);
    tell(() => `${id} ${how}${hasEffect ? ", with its effect" : ""}`);
    await stage.sleep(random.between(0, lasting));
    if (isCurrent(context.fence)) lastEnds.set(name, how);
    switch (how) {
      case "returned":
        return { run: id };
      case "did-nothing":
        throw context.notDone(new Error(id));
      case "interrupted":
        throw new library.NevertwiceError("pending", id);
      case "threw":
        throw new Error(id);
    }
  }

  /** @param {string} name @param {UndoContext} context */
  async function undo(name, context) {
    tell(() => `undo of ${name} under ${context.fence}`);
    count("undo");
    const why = log.whyNotUndone(name);
    if (why !== undefined && isCurrent(context.fence)) fail("undo-order", `${name} is undone: ${why}`);
    const kept = log.kept.get(name);
    const given = /** @type {{ run: string } | undefined} */ (context.outcome);
    if (isCurrent(context.fence) && kept !== undefined && (given === undefined || !kept.includes(given.run)))
      fail("same-end", `the undo of ${name} got another outcome than its step returned`);
    await stage.sleep(random.between(0, lasting));
    if (!stage.isHealed() && random.chance(undoFailing)) throw new Error(`undo of ${name} failed`);
    effects.delete(name);
  }

  /** @param {SagaResult} result */
  function judge(result) {
    tell(() => `answer: ${result.status}`);
    count(`answer ${result.status}`);
    if (result.status === "parked" && log.nextUndo() === undefined)
      fail("undo-order", "parked, and nothing is left to be undone");
    if (result.status !== "done" && result.status !== "undone") return;
    if (end !== undefined && end.status !== result.status)
      fail("same-end", `${end.status}, and then ${result.status}`);
    end = result;
    if (result.status === "done") return judgeDone(result.outcomes);
    if (log.decision()?.step !== result.step)
      fail("same-end", `undone from ${result.step}, which was not decided`);
    if (log.nextUndo() !== undefined) fail("all-undone", `undone, and ${log.nextUndo()} is not undone`);
    for (const { name, hasUndo } of steps)
      if (hasUndo && effects.has(name))
        fail("all-undone", `undone, and the effect of ${name} is still there`);
  }

  /** @param {Readonly<Record<string, any>>} outcomes */
  function judgeDone(outcomes) {
    if (log.decision() !== undefined) fail("decision", "done, although it was decided to undo it");
    for (const { name } of steps) {
      const kept = log.kept.get(name);
      if (kept === undefined) fail("step-order", `done, and ${name} is not`);
      else if (!kept.includes(outcomes[name]?.run))
        fail("same-end", `done, and the outcome of ${name} is another one`);
      if (!effects.has(name)) fail("decision", `done, and the effect of ${name} is undone`);
    }
  }

  /** @param {number} triesLeft @param {(status: string) => void} [onEnd] */
  function call(triesLeft, onEnd = () => {}) {
    const { retry, undoRetry, ...rest } = policy;
    let isOpen = true;
    const again = (/** @type {string} */ status) => {
      if (!isOpen) return;
      isOpen = false;
      if (ENDS.includes(status) || triesLeft <= 1) onEnd(status);
      else world.after(random.between(10, 150), () => call(triesLeft - 1, onEnd), null);
    };
    const record = { process: /** @type {any} */ (undefined), isAnswered: false };
    stage.send(
      stage.pickSlot(),
      async (guard, process) => {
        record.process = process;
        calls.push(record);
        const request = { operation: OPERATION, key: "k1", ...rest, retry, undoRetry };
        const result = /** @type {SagaResult} */ (await library.saga(guard, request, stepsOf()));
        record.isAnswered = true;
        judge(result);
        return result;
      },
      ({ status }) => again(status),
      (error) => fail("answered", `a saga threw: ${String(error)}`),
    );
    world.after(stage.isHealed() ? 3_000 : 400, () => again("no answer"), null);
  }

  function plan() {
    const callers = random.between(1, 4);
    for (let caller = 0; caller < callers; caller++)
      world.after(
        random.chance(0.4) ? random.between(0, 20) : random.between(0, 600),
        () => call(random.between(1, 4)),
        null,
      );
    const last = (/** @type {string} */ status) => {
      probes++;
      if (!ENDS.includes(status) && policy.onLapsed !== "hold")
        fail("answered", `the saga never ends: ${status}`);
    };
    world.after(times.healMs + 1_500, () => call(30, last), null);
  }

  function check() {
    if (probes === 0) fail("answered", "the last caller has no answer");
    for (const { process, isAnswered } of calls)
      if (!process.isDead && !isAnswered) fail("answered", `a call in ${process.name} was never answered`);
  }

  return { open, plan, check, scenario: { steps, policy, failing, undoFailing, lasting } };
}
