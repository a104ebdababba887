/**
 * The HTTP exchange behind the fetch adapter: clients that retry with the same key, duplicates at the same moment, other
 * requests under a used key, two tenants with equal keys, clients that leave.
 *
 *   one-run       no handler runs for a key whose response is kept
 *   as-said       a key is settled as the response of its handler says, and as the handler decides
 *   same-answer   a replay has the status, the headers and the bytes of the kept response
 *   own-answer    no client gets the response to another request, or to another tenant's
 *   answered      every request to a process that lives is answered
 */
import { subjectOf } from "./ledger.js";
import { createRuns } from "./runs.js";

/** @typedef {import("./stage.js").Stage} Stage */
/** @typedef {import("./stage.js").Play} Play */
/** @typedef {import("./virtual-time.js").SimulatedProcess} SimulatedProcess */
/** @typedef {import("./runs.js").Run} Run */

/**
 * @typedef {object} Client
 * @property {number} at
 * @property {string} key
 * @property {string} tenant
 * @property {string} content
 * @property {number} patienceMs
 * @property {boolean} leaves whether its requests end when it no longer waits
 * @property {number} tries
 * @property {boolean} isTwice whether it sends its first request twice at once
 */

/** @typedef {{ readonly status: number, readonly headers: Record<string, string>, readonly body: string }} Answer */

const ENDINGS = /** @type {const} */ ([
  ...["created", "created", "created", "created", "empty", "declined"],
  ...["failed", "busy", "throws", "not-done", "released", "unsure", "marked", "large"],
]);
/** @typedef {typeof ENDINGS[number]} Ending */

const MAX_OUTCOME_BYTES = 2_000;
const URL_OF_ORDERS = "https://shop.example/orders";
const OPERATION = "order";

/** @param {Stage} stage @returns {Play} */
export function httpDoor(stage) {
  const { random, world, ledger, fail, tell, count, library, times } = stage;
  const runs = createRuns(stage);
  const policy = {
    leaseMs: times.leaseMs,
    retentionMs: random.pick([400, 2_000, 5_000]),
    storeTimeoutMs: random.pick([20, 60, 130]),
    completeWaitMs: random.pick([0, 30, 100]),
    maxRunMs: random.pick([150, 500]),
    waitMs: random.pick([30, 200, 1_000]),
    onPending: random.pick(/** @type {const} */ (["wait", "wait", "reject"])),
    onLapsed: random.pick(/** @type {const} */ (["takeover", "takeover", "hold"])),
    onFailure: random.pick(/** @type {const} */ (["release", "release", "remember", "unknown"])),
    onNotKept: random.pick(/** @type {const} */ (["status", "refuse"])),
  };
  const clients = Array.from({ length: random.between(2, 4) }, drawClient);
  /** Requests that reached a process, with the process that must answer. @type {{ process: SimulatedProcess, isAnswered: boolean }[]} */
  const requests = [];
  ledger.watch({ ended: runs.ended });

  /** @returns {Client} */
  function drawClient() {
    return {
      at: random.chance(0.5) ? random.between(0, 20) : random.between(0, 600),
      key: random.chance(0.9) ? "k1" : "k2",
      tenant: random.chance(0.85) ? "alice" : "bob",
      content: random.chance(0.8) ? "tea" : "coffee",
      patienceMs: random.pick([60, 200, 1_500]),
      leaves: random.chance(0.5),
      tries: random.between(1, 4),
      isTwice: random.chance(0.3),
    };
  }

  /** @param {SimulatedProcess} process */
  function open(process) {
    const guard = library.createEngine({
      store: stage.storeFor(process),
      purgeEveryMs: 0,
      maxOutcomeBytes: MAX_OUTCOME_BYTES,
    });
    const options = {
      ...policy,
      scope: (/** @type {Request} */ request) => request.headers.get("x-tenant") ?? undefined,
      operation: OPERATION,
      replayHeaders: ["x-run"],
      clock: { now: world.wall },
    };
    const handler = (/** @type {Request} */ request) => handle(process, request);
    return library.withIdempotency(guard, options, handler);
  }

  /** The application: takes some time, and ends as the seed says. @param {SimulatedProcess} process @param {Request} request */
  async function handle(process, request) {
    const attempt = library.attemptOf(request);
    if (attempt === undefined) throw new Error("the handler has no attempt");
    const content = await request.text();
    const tenant = request.headers.get("x-tenant") ?? "";
    const { key, fence } = attempt;
    /** @type {Ending} */
    const ending = stage.isHealed() ? "created" : random.pick(ENDINGS);
    const detail = { content, tenant, key, ending, status: 0, body: "" };
    const run = runs.begin({
      scope: tenant,
      operation: OPERATION,
      key,
      fence,
      process: process.name,
      detail,
    });
    await stage.sleep(random.pick([0, 5, random.between(0, 60), random.between(60, 250)]));
    return end(run, attempt, request);
  }

  /**
   * @param {Run} run
   * @param {NonNullable<ReturnType<typeof library.attemptOf>>} attempt
   * @param {Request} request
   */
  function end(run, attempt, request) {
    const failed = () => {
      if (policy.onFailure === "release") return request.signal.aborted ? "unknown" : "release";
      return policy.onFailure === "remember" ? "keep" : policy.onFailure;
    };
    const answer = (/** @type {number} */ status, /** @type {string | null} */ body) => {
      Object.assign(run.detail, { status, body: body ?? "" });
      return new Response(body, { status, headers: { "x-run": run.id } });
    };
    const whole = JSON.stringify({ run: run.id, ...run.detail });
    switch (run.detail.ending) {
      case "created":
        runs.end(run, "keep");
        return answer(201, whole);
      case "empty":
        runs.end(run, "keep");
        return answer(204, null);
      case "declined":
        runs.end(run, "keep");
        return answer(402, whole);
      case "failed":
        runs.end(run, failed());
        return answer(500, whole);
      case "busy":
        runs.end(run, "release");
        return answer(429, whole);
      case "released":
        attempt.keep("release");
        runs.end(run, "release");
        return answer(200, whole);
      case "unsure":
        attempt.keep("unknown");
        runs.end(run, "unknown");
        return answer(200, whole);
      case "marked":
        attempt.keep("marker");
        runs.end(run, "keep");
        return answer(200, whole);
      case "large":
        runs.end(run, "keep");
        return answer(200, whole + "x".repeat(MAX_OUTCOME_BYTES));
      case "not-done":
        runs.end(run, "release");
        throw attempt.notDone(new Error(run.id));
      default:
        // A client that left may have cut the work off.
        runs.end(run, request.signal.aborted ? "unknown" : failed());
        throw new Error(run.id);
    }
  }

  /** @param {Client} client */
  function send(client) {
    const { key, tenant, content } = client;
    const record = { process: /** @type {any} */ (undefined), isAnswered: false };
    let isWaiting = true;
    let leave = () => {};
    const slot = stage.pickSlot();
    stage.send(
      slot,
      async (app, process) => {
        const controller = new AbortController();
        leave = () => void world.after(0, () => controller.abort(new Error("the client left")), process);
        record.process = process;
        requests.push(record);
        const request = new Request(URL_OF_ORDERS, {
          method: "POST",
          headers: { "idempotency-key": `"${key}"`, "x-tenant": tenant, "content-type": "application/json" },
          body: JSON.stringify(content),
          signal: controller.signal,
        });
        const seen = runs.all(subjectOf({ scope: tenant, operation: OPERATION, key })).length;
        try {
          const answer = await flatten(await app(request));
          record.isAnswered = true;
          judge(client, answer, seen);
          return answer;
        } catch (error) {
          record.isAnswered = true;
          judgeThrown(client, error);
          throw error;
        }
      },
      (answer) => {
        if (isWaiting) after(answer.status < 500 && answer.status !== 409 && answer.status !== 429);
      },
      () => {
        if (isWaiting) after(false);
      },
    );
    const giveUp = () => {
      if (!isWaiting) return;
      if (client.leaves) leave();
      after(false);
    };
    world.after(client.patienceMs, giveUp, null);

    function after(/** @type {boolean} */ isDone) {
      isWaiting = false;
      if (isDone || --client.tries <= 0) return;
      world.after(random.between(0, 80), () => send(client), null);
    }
  }

  /** What is sent to a client, judged as it leaves the process. @param {Client} client @param {Answer} answer @param {number} seen */
  function judge(client, answer, seen) {
    const { status, headers, body } = answer;
    const isReplay = headers["idempotent-replayed"] === "true";
    tell(() => `answer: ${client.tenant} ${client.key} ${status}${isReplay ? " replayed" : ""}`);
    count(`answer ${status}${isReplay ? " replayed" : ""}`);
    const id = headers["x-run"];
    if (id === undefined) {
      if (status < 400) fail("own-answer", `a ${status} that no handler made`);
      return;
    }
    const run = runs.get(id);
    if (run === undefined) return fail("own-answer", `an answer of ${id}, which never ran`);
    const { detail } = run;
    if (detail.tenant !== client.tenant)
      fail("own-answer", `${client.tenant} got the response of ${detail.tenant}`);
    if (detail.key !== client.key || detail.content !== JSON.stringify(client.content))
      fail("own-answer", `the response to another request: ${id}`);
    if (detail.status !== status)
      fail("same-answer", `${id} responded ${detail.status}, and ${status} was sent`);
    const isWithoutBody = headers["nevertwice-outcome"] === "not-kept" && isReplay;
    if (!isWithoutBody && detail.body !== body) fail("same-answer", `the body of ${id} has changed`);
    const mayLackBody = detail.ending === "marked" || detail.ending === "large";
    if (isWithoutBody && !mayLackBody) fail("same-answer", `the body of ${id} was lost`);
    const isFirst = runs.all(run.subject).indexOf(run) >= seen;
    if (!isReplay && !isFirst) fail("same-answer", `${id} was sent again, and not as a replay`);
    if (isReplay && runs.completed(run) === undefined)
      fail("same-answer", `${id} was replayed, and it is not completed`);
    judgeOthers(run);
  }

  /** Never two different responses for one key while the first one is kept. @param {Run} run */
  function judgeOthers(run) {
    for (const other of runs.all(run.subject)) {
      const attempt = runs.completed(other);
      if (other === run || attempt === undefined || !ledger.isKept(attempt)) continue;
      // An attempt that lost its claim may still respond. Its response is not kept.
      if (runs.completed(run) !== undefined || other.fence < run.fence)
        fail("same-answer", `${run.id} was sent, and ${other.id} is kept`);
    }
  }

  /** @param {Client} client @param {unknown} error */
  function judgeThrown(client, error) {
    const text = error instanceof Error ? error.message : String(error);
    tell(() => `thrown to ${client.tenant} ${client.key}: ${text}`);
    count("answer thrown");
    if (runs.get(text) === undefined) fail("own-answer", `an error that no handler threw: ${text}`);
  }

  function plan() {
    for (const client of clients)
      world.after(
        client.at,
        () => {
          send({ ...client });
          if (client.isTwice) send({ ...client });
        },
        null,
      );
    // When all is well again, a kept response is replayed.
    for (const subject of ["alice k1", "alice k2", "bob k1"])
      world.after(times.healMs + 1_500, () => probe(subject), null);
  }

  /** @param {string} subject */
  function probe(subject) {
    const [tenant = "", key = ""] = subject.split(" ");
    const parts = { scope: tenant, operation: OPERATION, key };
    const kept = runs.all(subjectOf(parts)).find((run) => {
      const attempt = runs.completed(run);
      return attempt !== undefined && ledger.isCurrent(attempt) && ledger.isKept(attempt);
    });
    if (kept === undefined) return;
    const content = JSON.parse(kept.detail.content);
    const client = { ...drawClient(), tenant, key, content, tries: 1, patienceMs: 1_000 };
    const slot = stage.pickSlot();
    const ran = runs.all(kept.subject).length;
    world.after(
      500,
      () => {
        const attempt = runs.completed(kept);
        if (attempt !== undefined && ledger.isKept(attempt) && runs.all(kept.subject).length > ran)
          fail("same-answer", `${kept.id} is kept, and a retry ran again`);
      },
      null,
    );
    tell(() => `probe of ${kept.id} at ${slot.process.name}`);
    send(client);
  }

  function check() {
    for (const { process, isAnswered } of requests)
      if (!process.isDead && !isAnswered) fail("answered", `a request to ${process.name} was never answered`);
  }

  return { open, plan, check, scenario: { policy, clients } };
}

/** @param {Response} response @returns {Promise<Answer>} */
async function flatten(response) {
  return {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    body: await response.text(),
  };
}
