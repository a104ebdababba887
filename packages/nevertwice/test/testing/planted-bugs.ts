/**
 * Bugs that libraries of this kind really had, each planted as a patch of the built code. A patch must fit exactly once:
 * one that no longer fits is a test that no longer tests.
 */
export interface PlantedBug {
  readonly name: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** Where to start looking for a bug that few schedules meet; default 1. */
  readonly from?: number;
}

export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    name: "no fence check: a late writer's completion is accepted",
    file: "core/record.js",
    find: 'const record = owned(found, request.token, now);\n    if (record === undefined || record.state === "released")',
    replace:
      'const record = owned(found, found?.token, now);\n    if (record === undefined || record.state === "released")',
  },
  {
    name: "the lease is used as retention",
    file: "core/record.js",
    find: "const keptUntil = now + request.retentionMs;",
    replace: "const keptUntil = now + record.leaseMs;",
  },
  {
    name: "a caller that cancels releases the running claim",
    file: "core/running-attempts.js",
    find: "this.handed = createAttempt(ports, settlement, this.lease, number);",
    replace: `this.handed = createAttempt(ports, settlement, this.lease, number);
        const { call, round } = settlement;
        call.signal?.addEventListener("abort", () => void ports.background.persist(1_000, () =>
            ports.store.abandon({ id: call.identity.id, token: round.token, as: "released" })));`,
  },
  {
    name: "abandon is unconditional",
    file: "core/record.js",
    find: "export function abandonRecord(found, token, as, now) {\n    const record = owned(found, token, now);",
    replace:
      "export function abandonRecord(found, token, as, now) {\n    const record = owned(found, found?.token, now);",
  },
  {
    name: "the fingerprint is compared only when completed",
    file: "core/record.js",
    find: 'const isCompared = state !== "released" || hasSteps(record);',
    replace: 'const isCompared = state === "completed";',
  },
  {
    name: "a token is used again after a takeover",
    file: "core/claim-round.js",
    find: "brought ?? ports.newToken()",
    replace: "call.identity.id",
  },
  {
    name: "renew after complete shortens the retention",
    file: "core/record.js",
    find: "export function renewRecord(found, token, leaseMs, now) {\n    const record = owned(found, token, now);",
    replace: `export function renewRecord(found, token, leaseMs, now) {
    const record = owned(found, token, now);
    if (record?.state === "completed")
        return { answer: false, write: { ...record, keptUntil: now + leaseMs } };`,
  },
  {
    name: "a waiter that gives up deletes the claim it waited for",
    file: "core/executor.js",
    find: 'case "token-spent":\n                return refused(tokenSpent(), { identity: call.identity });',
    replace: `case "token-spent":
                return refused(tokenSpent(), { identity: call.identity });
            case "pending": {
                const { id } = call.identity;
                void ports.store.read(id).then((owner) => owner && ports.store.abandon({ id, token: owner.token, as: "released" })).catch(() => {});
                return answer;
            }`,
  },
  {
    name: "an expired record that was not purged is replayed",
    file: "core/record.js",
    find: "return isOver(record.keptUntil, now);",
    replace: 'return record.state !== "completed" && isOver(record.keptUntil, now);',
  },
  {
    name: "a lost claim reply is treated as not claimed",
    file: "core/claim-round.js",
    find: "const send = (deadline) => sendClaim(ports, call, round.token, takeover, deadline);",
    replace:
      "const send = (deadline) => { round.token = ports.newToken(); return sendClaim(ports, call, round.token, takeover, deadline); };",
  },
  {
    name: "a late new is dropped",
    file: "core/claim-round.js",
    find: 'late.status === "new" && round.grantLate()',
    replace: "false",
  },
  {
    name: "a claim is kept after its caller left",
    file: "core/executor.js",
    find: "nothing will run under it.\n            abandonUnrun(ports, call, round);",
    replace: "nothing will run under it.",
  },
  {
    name: "a claim that was granted at once is kept after its caller left",
    file: "core/executor.js",
    find: 'if (answer.status === "new" && isLeaving(call)) {',
    replace:
      'if (answer.status === "new" && isLeaving(call) && round.sentAt === timer.now()) return refused(closed(), { identity: call.identity });\n        if (answer.status === "new" && isLeaving(call)) {',
  },
  {
    name: "a claim that is granted after the completion of its own attempt is not answered",
    file: "core/settlement.js",
    find: "round.mayBeGrantedLate || ",
    replace: "",
  },
  {
    name: "a value is kept without a copy of its own",
    file: "core/outcome.js",
    find: "const value = copyAgain(this.#plain);",
    replace:
      'const value = this.#plain;\n        queueMicrotask(() => value !== null && typeof value === "object" && (value.run = "other"));',
  },
  {
    name: "work is started on a lease that ended while the claim was under way",
    file: "core/claim-round.js",
    find: "if (timer.now() < leaseEnd(round.sentAt, leaseMs))",
    replace: "if (true)",
    from: 56_000,
  },
  {
    name: "a clock that steps back hands the key over",
    file: "core/record.js",
    find: 'if (state === "pending")\n        return claimedByAnother',
    replace:
      'if (state === "pending" && record.leaseEndsAt - now <= record.leaseMs + CLOCK_BACK_MARGIN_MS)\n        return claimedByAnother',
  },
  {
    name: "completion is given up at the lease's end",
    file: "core/settlement.js",
    find: ".persist(storeTimeoutMs, send, call.waitUntil)",
    replace:
      ".persist(storeTimeoutMs, (bound) => ports.timer.now() > round.sentAt + call.policy.leaseMs ? Promise.resolve(unanswered) : send(bound))",
  },
  {
    name: "the lease of a late grant is counted from when the grant came",
    file: "core/store-call.js",
    find: "resolve({ isAnswered: true, answer, sentAt, isAmbiguous });",
    replace: "resolve({ isAnswered: true, answer, sentAt: timer.now(), isAmbiguous });",
  },
  {
    name: "a held claim is taken over like any other",
    file: "core/record.js",
    find: "? !record.hold && !request.hold",
    replace: "? true",
  },
  {
    name: "an unrun claim of a lapsed key releases it",
    file: "core/record.js",
    find: '(as === "unrun" && !record.tookOver)',
    replace: 'as === "unrun"',
  },
  {
    name: "work that was cut off is called a failure",
    file: "core/attempt.js",
    find: "if (isCutOff || isStepFailure(thrown))",
    replace: "if (false)",
  },
  {
    name: "a repeated claim is given a new fence",
    file: "core/record.js",
    find: "return granted(withLease({ ...record, hold: record.hold || request.hold }, request.leaseMs, now));",
    replace:
      "return granted(withLease({ ...record, fence: nextFence(record.fence), hold: record.hold || request.hold }, request.leaseMs, now));",
  },
  {
    name: "a takeover starts again with the first step",
    file: "core/record.js",
    find: "const steps = before && carriedSteps(before, request.token);",
    replace: 'const steps = before?.state === "released" ? carriedSteps(before, request.token) : undefined;',
  },
  {
    name: "a released key starts again with the first step",
    file: "core/record.js",
    find: "const steps = before && carriedSteps(before, request.token);",
    replace: 'const steps = before?.state === "pending" ? carriedSteps(before, request.token) : undefined;',
  },
  {
    name: "the next step starts before the last one is kept",
    file: "core/steps.js",
    find: "if (!(await this.#send(keepStep, name, encoded.text)))",
    replace: "void this.#send(keepStep, name, encoded.text).catch(() => {});\n        if (false)",
  },
  {
    name: "a late writer's step is accepted",
    file: "core/record.js",
    find: 'const record = owned(found, request.token, now);\n    if (record === undefined || record.state !== "pending"',
    replace:
      'const record = owned(found, found?.token, now);\n    if (record === undefined || record.state !== "pending"',
  },
  {
    name: "an identity without its scope",
    file: "core/identity.js",
    find: 'label.start + prefixed(scope, "scope", "options-invalid") + label.end',
    replace: "label.unscoped",
  },
  {
    name: "a shared claim that is granted is granted to every caller",
    file: "stores/claim-sharing.js",
    find: "pendingAnswer(sent.leaseMs, 0) : undefined",
    replace: "answer : undefined",
  },
  {
    name: "a shared claim that finds another owner says so to that owner too",
    file: "stores/claim-sharing.js",
    find: "pendingAnswer(sent.leaseMs, 0) : undefined",
    replace: "pendingAnswer(sent.leaseMs, 0) : answer",
  },
  {
    name: "claims of different meaning share one",
    file: "stores/claim-sharing.js",
    find: "a.fingerprint === b.fingerprint &&",
    replace: "",
  },
  {
    name: "a claim shares one that has been sent already",
    file: "stores/call-sharing.js",
    find: "queued.delete(id);",
    // For some events of the simulation after it has been sent.
    replace:
      "((turns) => { const wait = () => turns-- > 0 ? setImmediate(wait) : queued.delete(id); wait(); })(4);",
  },
  {
    name: "a claim is granted to a caller that left, and its answer to the next one",
    file: "stores/call-sharing.js",
    find: "shared.caller = first;",
    replace: "shared.caller = { ...first, call: shared.caller.call };",
  },
];
