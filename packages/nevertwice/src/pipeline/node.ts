/**
 * One message in one node: validate, claim the key, run core and shell, complete the claim. The outcome that is stored with
 * the completion is what the node emitted. Sending it on is the scheduler's part, and never makes the node run again:
 *
 *     validate ── claim ── core ── shell ── complete ── forward (scheduler.ts) ── settled
 *                 ╰─ a crash here: the next delivery    ╰─ a crash here: the next delivery forwards what
 *                    runs the node                         is stored, and does not run the node
 */
import type { Attempt } from "../core/attempt.ts";
import { doorRules } from "../core/door-rules.ts";
import { isNevertwiceError } from "../core/errors.ts";
import { type RunResult, refused, toError } from "../core/result.ts";
import { capturePayload } from "./captured-payload.ts";
import type { Message } from "./message.ts";
import { type ClaimedWork, runClaimed } from "./message-claim.ts";
import { createMessageEndings, invalidMessage, type MessageEndings } from "./message-endings.ts";
import type { MessageOutcome } from "./message-outcome.ts";
import type { NodeModel } from "./model.ts";
import { eventPlace, type NetworkContext } from "./network-context.ts";
import { keyFrom, nodePolicies, nodeScope } from "./node-key.ts";
import type { NodeOutcome } from "./node-outcome.ts";
import {
  afterReplay,
  afterRun,
  afterUnkeyedRun,
  ended,
  type KeyedNodeVisit,
  type NodeResult,
  type NodeVisit,
} from "./node-result.ts";
import type { EventPlace } from "./pipeline-event.ts";
import { createRateLimit } from "./rate-limit.ts";
import { readRecordedOutcome } from "./recorded-outcome.ts";
import type { MessageSettlement } from "./settlement.ts";
import { runTries, TriesFailed, type TriesResult } from "./tries.ts";

export interface Node {
  readonly model: NodeModel;
  readonly endings: MessageEndings;
  /** The message with the payload that its schema returned, or the outcome of an invalid message. */
  validate(port: string, message: Message): Promise<Message | MessageOutcome>;
  /** Runs the node for a valid message. `free` is called when the node may take its next message. Never rejects. */
  run(port: string, message: Message, free: () => void): Promise<NodeResult>;
}

type RunWork = (port: string, visit: NodeVisit, claim: Attempt) => Promise<TriesResult>;

const RULES = doorRules({
  judgeReplay: (value) => (readRecordedOutcome(value).by === "unknown" ? "unreadable" : undefined),
});

export function createNode(context: NetworkContext, model: NodeModel): Node {
  const { network, guard, timer, report } = context;
  const { idempotency } = model.contract;
  const rateLimit = model.rate && createRateLimit(timer, model.rate);
  const endings = createMessageEndings(context, model.name);
  const { operation, scope } = nodeScope(network, model);
  const policies = nodePolicies(model);
  const { retentionMs } = policies;
  const claims = { guard: guard.with({ ...policies, onPending: "reject", onFailure }), timer };

  async function validate(port: string, message: Message): Promise<Message | MessageOutcome> {
    const schema = model.in.get(port)?.schema;
    if (schema === undefined) return message;
    try {
      return { ...message, payload: await schema.check(message.payload) };
    } catch (error) {
      return endings.failed(
        eventPlace(context, model.name, message),
        invalidMessage("schema-mismatch", error),
      );
    }
  }

  function run(port: string, message: Message, free: () => void): Promise<NodeResult> {
    const visit = { message, place: eventPlace(context, model.name, message), free };
    return idempotency === undefined ? runUnkeyed(port, visit) : runKeyed(idempotency.fields, port, visit);
  }

  async function runUnkeyed(port: string, visit: NodeVisit): Promise<NodeResult> {
    try {
      const ran = await runWork(port, visit);
      reportDone(visit.place, ran);
      return afterUnkeyedRun(ran.output, visit, endings);
    } catch (error) {
      return ended(endings.threw(visit.place, error));
    }
  }

  /** Runs the tries. Call `reportDone` once the output is stored. */
  function runWork(port: string, { message, place }: NodeVisit, claim?: Attempt): Promise<TriesResult> {
    const { capture } = model;
    report?.({
      ...place,
      kind: "started",
      ...(capture && { captured: capturePayload(message.payload, capture) }),
    });
    return runTries({ context, node: model, rateLimit, message, port, place, claim });
  }

  function reportDone(place: EventPlace, { output, attempt, ranMs }: TriesResult): void {
    if (report === undefined) return;
    const { capture } = model;
    if (output.drop !== undefined) report({ ...place, ...output.drop, kind: "dropped" });
    const payloads = capture && output.emits.map(([, payload]) => capturePayload(payload, capture));
    const emits = output.emits.length;
    const ports = [...new Set(output.emits.map(([port]) => port))];
    const captured = payloads && { captured: payloads };
    report({ ...place, kind: "completed", attempt, ranMs, emits, ports, ...captured });
  }

  async function runKeyed(
    fields: readonly string[],
    port: string,
    { message, place: unkeyed, free }: NodeVisit,
  ): Promise<NodeResult> {
    let place = unkeyed;
    let key: string;
    try {
      key = keyFrom(message.payload, fields);
    } catch (error) {
      const reason = isNevertwiceError(error) ? error.code : "key-invalid";
      return ended(endings.failed(place, invalidMessage(reason, error)));
    }
    try {
      const subject = { operation, scope, key };
      if (report !== undefined) place = { ...unkeyed, keyHash: guard.about(subject).keyHash };
      const shorten = (output: NodeOutcome) => withoutOutput(output, place);
      const work = new KeyedWork(runWork, port, { message, place, free });
      const result = await runClaimed<unknown>(
        claims,
        message,
        free,
        { operation, scope, key, shorten, ...RULES },
        work,
      );
      if (result.status === "ran" && work.ran !== undefined) reportDone(place, work.ran);
      // An earlier attempt may have forwarded its output before its completion was lost. Nodes behind this one may then be
      // completed without having forwarded theirs.
      const forwarded = work.number > 1 ? { ...message, isRecovered: true } : message;
      const visit = { subject, retentionMs, message: forwarded, place, free };
      if (result.status === "ran") return afterRun(result.value as NodeOutcome, visit, endings);
      return await afterUnrun(result, visit);
    } catch (error) {
      return ended(endings.threw(place, error));
    }
  }

  /** What is stored instead of output that is too large. */
  function withoutOutput({ run: name, reply }: NodeOutcome, place: EventPlace): NodeOutcome {
    report?.({ ...place, kind: "not-kept" });
    return { run: name, emits: [], ...(reply && { reply }), wrong: "what it emitted could not be kept" };
  }

  async function afterUnrun(result: RunResult<unknown>, visit: KeyedNodeVisit): Promise<NodeResult> {
    const { place } = visit;
    switch (result.status) {
      case "replayed":
        return afterRecorded(result.value, visit);
      case "already-done":
        return ended(endings.duplicate(place));
      case "not-kept":
        report?.({ ...place, kind: "not-kept" });
        // An operator forgot the outcome: the work is done, and nothing is forwarded.
        if (result.reason === "forgotten") return ended(endings.duplicate(place));
        return ended(endings.dispatchFailed(place, { reason: "not-kept", error: toError(result) }));
      default:
        return ended(endings.sendAgain(place, result));
    }
  }

  async function afterRecorded(value: unknown, visit: KeyedNodeVisit): Promise<NodeResult> {
    const { place, subject } = visit;
    const recorded = readRecordedOutcome(value);
    if (recorded.by === "unknown")
      return ended(
        endings.dispatchFailed(place, { reason: "wrong-outcome", error: new Error(recorded.problem) }),
      );
    if (recorded.by === "run") return afterReplay(recorded.output, visit, endings);
    if (recorded.output.emits.length === 0)
      return afterReplay({ ...recorded.output, run: "" }, visit, endings);
    // The fence identifies this operator's decision: output that another decision supplied does not count as forwarded.
    let fence: number;
    try {
      const record = await guard.read(subject);
      if (record?.state !== "completed")
        return ended(endings.sendAgain(place, { status: "pending", leaseLeftMs: 0 }));
      fence = record.fence;
    } catch (error) {
      return ended(endings.sendAgain(place, refused(error)));
    }
    return afterReplay({ ...recorded.output, run: String(fence), care: "own" }, visit, endings);
  }

  return { model, endings, validate, run };
}

/** An effect that may have happened must not be run again as if it had failed. */
function onFailure(error: unknown): "unknown" | "release" {
  return error instanceof TriesFailed && error.isUnknown ? "unknown" : "release";
}

/** The work of a node under the claim of its key. */
class KeyedWork implements ClaimedWork<NodeOutcome> {
  /** Undefined until the tries have ended well. */
  ran: TriesResult | undefined;
  thrown: { readonly error: unknown } | undefined;
  /** Of the attempt; 1 if the work does not run. */
  number = 1;
  readonly #runWork: RunWork;
  readonly #port: string;
  readonly #visit: NodeVisit;

  constructor(runWork: RunWork, port: string, visit: NodeVisit) {
    this.#runWork = runWork;
    this.#port = port;
    this.#visit = visit;
  }

  readonly run = async (claim: Attempt): Promise<NodeOutcome> => {
    this.number = claim.number;
    try {
      this.ran = await this.#runWork(this.#port, this.#visit, claim);
      const { output } = this.ran;
      return output.emits.length === 0 ? output : withOrigin(output, this.#visit.message);
    } catch (error) {
      this.thrown = { error };
      throw error;
    }
  };
}

/** The output with what is stored about the message that it came from. */
function withOrigin(output: NodeOutcome, { settlement, root }: Message): NodeOutcome {
  const { run, emits, reply, wrong } = output;
  const care: MessageSettlement | "own" = settlement ?? "own";
  // One literal: every message of a node with a key passes here, and adding members to a copy is slower.
  const stored = root === undefined ? { run, emits, care } : { run, emits, care, root };
  return reply === undefined && wrong === undefined ? stored : { ...output, ...stored };
}
