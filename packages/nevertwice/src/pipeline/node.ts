/**
 * One message in one node: validate, claim, core, effect, mark, dispatch. The mark is the completion of the claim, with
 * what the node emitted as its outcome. What happens after it never makes the node run again:
 *
 *     claim ── core ── effect ── mark ── dispatch ── settled
 *      ╰─ a crash here: the next    ╰─ a crash here: the next delivery sends on what was
 *         delivery runs the node       kept, and the node is not run again
 */
import type { Attempt, Work } from "../core/attempt.ts";
import { isNevertwiceError } from "../core/errors.ts";
import type { RunRequest } from "../core/request.ts";
import type { RunResult } from "../core/result.ts";
import { capturedOf } from "./capture.ts";
import { type Environment, whereOf } from "./environment.ts";
import { ACKNOWLEDGED, DUPLICATE, type Failure, type Message, type Settled, unsettled } from "./message.ts";
import type { NodeModel } from "./model.ts";
import { keyIn, requestOf, settlingOf, subjectOf } from "./node-key.ts";
import type { Where } from "./pipeline-event.ts";
import { createPace } from "./rate.ts";
import { reasonOf } from "./reason.ts";
import type { Kept } from "./returned.ts";
import { TriesFailed, tryUntilDone } from "./trying.ts";

export interface NodeWork {
  /** The payload as its schema has it, or why it cannot be. */
  validate(port: string, message: Message): Promise<Message | Settled>;
  /** Everything after that. `free` is called when the node may take the next. Never rejects. */
  pass(port: string, message: Message, free: () => void): Promise<Settled>;
  fail(where: Where, failure: Omit<Failure, "network" | "node">): Settled;
}

export function createNodeWork(environment: Environment, node: NodeModel): NodeWork {
  const { network, guard, timer, tell } = environment;
  const { idempotency } = node.contract;
  const pace = node.rate && createPace(timer, node.rate);

  function fail(where: Where, failure: Omit<Failure, "network" | "node">): Settled {
    tell?.({ ...where, ...failure, kind: "failed" });
    return unsettled({ network, node: node.name, ...failure });
  }

  async function validate(port: string, message: Message): Promise<Message | Settled> {
    const schema = node.in.get(port)?.schema;
    if (schema === undefined) return message;
    try {
      return { ...message, payload: await schema.check(message.payload) };
    } catch (error) {
      return fail(whereOf(environment, node.name, message), invalid("schema-mismatch", error));
    }
  }

  async function pass(port: string, message: Message, free: () => void): Promise<Settled> {
    const where = whereOf(environment, node.name, message);
    if (idempotency === undefined) {
      try {
        const ran = await run(where, message, port);
        ran.report();
        return await send(ran.kept, message, where, free);
      } catch (error) {
        return failedTries(where, error);
      }
    }
    let key: string;
    try {
      key = keyIn(message.payload, idempotency.fields);
    } catch (error) {
      return fail(where, invalid(isNevertwiceError(error) ? error.code : "key-invalid", error));
    }
    return passKeyed(key, port, message, where, free);
  }

  /** Runs the tries. `report` tells how they went, once that is kept. */
  async function run(where: Where, message: Message, port: string, claim?: Attempt) {
    const { capture } = node;
    const startedAtMs = timer.now();
    tell?.({ ...where, kind: "started", ...(capture && { captured: capturedOf(message.payload, capture) }) });
    const { kept, attempt } = await tryUntilDone({ environment, node, pace, message, port, where, claim });
    const ranMs = timer.now() - startedAtMs;
    const report = () => {
      if (kept.drop !== undefined) tell?.({ ...where, ...kept.drop, kind: "dropped" });
      const captured = capture && kept.emits.map(([, payload]) => capturedOf(payload, capture));
      const emits = kept.emits.length;
      tell?.({ ...where, kind: "completed", attempt, ranMs, emits, ...(captured && { captured }) });
    };
    return { kept, report };
  }

  async function passKeyed(
    key: string,
    port: string,
    message: Message,
    bare: Where,
    free: () => void,
  ): Promise<Settled> {
    const request = requestOf(network, node, key);
    let where = bare;
    let report = () => {};
    let number = 1;
    try {
      if (tell !== undefined) where = { ...bare, keyHash: guard.about(subjectOf(request)).keyHash };
      const result = await claimed<Kept>(
        message,
        free,
        {
          ...request,
          onFailure: (error) => (error instanceof TriesFailed && error.isUnknown ? "unknown" : "release"),
          shorten: ({ run: name, reply }: Kept): Kept => {
            tell?.({ ...where, kind: "not-kept" });
            return {
              run: name,
              emits: [],
              ...(reply && { reply }),
              wrong: "what it emitted could not be kept",
            };
          },
        },
        async (claim) => {
          number = claim.number;
          const ran = await run(where, message, port, claim);
          report = ran.report;
          return ran.kept;
        },
      );
      if (result.status === "ran") report();
      // An earlier attempt may have gone on before its mark was lost: what is done behind this node may have gone no further.
      const onward = number > 1 ? { ...message, isRecovered: true } : message;
      return await afterClaim(result, request, onward, where, free);
    } catch (error) {
      return failedTries(where, error);
    }
  }

  function afterClaim(
    result: RunResult<Kept>,
    request: ReturnType<typeof requestOf>,
    message: Message,
    where: Where,
    free: () => void,
  ): Promise<Settled> | Settled {
    switch (result.status) {
      case "ran":
        return sendInCare(result.value, request, message, where, free);
      case "replayed":
        return sendAgain(result.value, request, message, where, free);
      case "already-done":
        return duplicate(where);
      case "not-kept":
        tell?.({ ...where, kind: "not-kept" });
        // An operator forgot it: it is done, and nobody is to hear of it again.
        if (result.reason === "forgotten") return duplicate(where);
        return dispatchFailed(where, "not-kept", "later");
      default:
        return comeBack(where, result);
    }
  }

  /** It was done before. What was kept goes on only if an earlier delivery did not get it to its end. */
  function sendAgain(
    kept: Kept,
    request: ReturnType<typeof requestOf>,
    message: Message,
    where: Where,
    free: () => void,
  ): Promise<Settled> | Settled {
    if (kept.reply !== undefined) message.waiter?.reply(kept.reply.value);
    const isWaitedFor = message.isRecovered || !message.isInCare;
    if (kept.wrong === undefined && (kept.emits.length === 0 || !isWaitedFor))
      return duplicate(where, kept.reply);
    return sendInCare(kept, request, message, where, free, true);
  }

  /** The first node with a key on a message's way knows whether all that came of it is settled: it has a claim for that. */
  async function sendInCare(
    kept: Kept,
    request: ReturnType<typeof requestOf>,
    message: Message,
    where: Where,
    free: () => void,
    isAgain = false,
  ): Promise<Settled> {
    const go = (isBegun: boolean) => {
      if (isBegun && kept.wrong === undefined) tell?.({ ...where, kind: "recovered" });
      const sent = { ...message, isInCare: true, isRecovered: message.isRecovered || isBegun };
      return send(kept, sent, where, free);
    };
    if (message.isInCare || kept.emits.length === 0 || kept.wrong !== undefined) return go(isAgain);
    let settled: Settled | undefined;
    try {
      const result = await claimed<{ readonly reply?: { readonly value: unknown } }>(
        message,
        free,
        settlingOf(request, kept.run),
        // A later attempt goes on with what an earlier one, of whatever delivery, did not get to its end.
        async ({ number }) => {
          settled = await go(isAgain || number > 1);
          if (settled.verdict !== "acknowledge") throw new Error("not settled");
          return settled.reply === undefined ? {} : { reply: settled.reply };
        },
      );
      // Overtaken while it was sent on: what was skipped here as done is in the other's hands, and not yet settled.
      if (result.status === "lease-lost") return comeBack(where, result);
      if (settled !== undefined) return settled;
      if (result.status !== "replayed") return comeBack(where, result);
      if (result.value.reply !== undefined) message.waiter?.reply(result.value.reply.value);
      return duplicate(where, result.value.reply ?? kept.reply);
    } catch (error) {
      if (settled !== undefined) return settled;
      throw error;
    }
  }

  async function send(kept: Kept, message: Message, where: Where, free: () => void): Promise<Settled> {
    const { reply } = kept;
    if (reply !== undefined) message.waiter?.reply(reply.value);
    if (kept.wrong !== undefined) return dispatchFailed(where, "wrong-emit", "reject", new Error(kept.wrong));
    if (kept.emits.length === 0) return reply === undefined ? ACKNOWLEDGED : { ...ACKNOWLEDGED, reply };
    return environment.dispatch(node, kept, message, free);
  }

  function duplicate(where: Where, reply?: { readonly value: unknown }): Settled {
    tell?.({ ...where, kind: "duplicate" });
    return reply === undefined ? DUPLICATE : { ...DUPLICATE, reply };
  }

  function dispatchFailed(
    where: Where,
    reason: string,
    verdict: Failure["verdict"],
    error?: unknown,
  ): Settled {
    tell?.({ ...where, kind: "dispatch-failed", reason, error });
    return unsettled({ verdict, network, node: node.name, phase: "dispatch", attempt: 0, reason, error });
  }

  /** Nothing was done here and now: another does it, or nobody can say who does. */
  function comeBack(where: Where, result: RunResult<unknown>): Settled {
    const error = "error" in result ? result.error : undefined;
    const reason = result.status;
    tell?.({ ...where, kind: "later", reason, error });
    return unsettled({
      verdict: "later",
      network,
      node: node.name,
      phase: "claim",
      attempt: 0,
      reason,
      error,
    });
  }

  function failedTries(where: Where, error: unknown): Settled {
    if (error instanceof TriesFailed) return fail(where, error.failure);
    // The guard refused the request itself: a key that is too long, say.
    if (isNevertwiceError(error)) return fail(where, invalid(error.code, error));
    return fail(where, { verdict: "later", phase: "execute", attempt: 0, reason: reasonOf(error), error });
  }

  /**
   * A message from outside is not waited for: its sender sends it again. One that is on its way is, and so is a caller;
   * but whoever waits for another attempt keeps nobody else from the node.
   */
  async function claimed<T>(
    { waiter, isInCare }: Message,
    free: () => void,
    request: RunRequest,
    work: Work<T>,
  ): Promise<RunResult<T>> {
    const result = await guard.tryRun<T>({ ...request, onPending: "reject" }, work);
    if (result.status !== "pending" || (waiter === undefined && !isInCare)) return result;
    free();
    const leftMs = waiter && Math.max(0, Math.ceil(waiter.untilMs - timer.now()));
    return guard.tryRun<T>({ ...request, onPending: "wait", waitMs: leftMs ?? guard.policy.waitMs }, work);
  }

  return { validate, pass, fail };
}

function invalid(reason: string, error: unknown): Omit<Failure, "network" | "node"> {
  return { verdict: "reject", phase: "validate", attempt: 0, reason, error };
}
