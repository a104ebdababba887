/**
 * The claims API: callers elsewhere claim, renew, complete and give up through any of the servers, and repeat a call whose
 * answer was lost. Some bring their own tokens.
 *
 *   stale-token   a token that lost its claim completes nothing, and is told so
 *   same-answer   a repeated completion gets the same answer; a completed key has the value of the token that completed it
 *   own-token     a claim with a token is made with that token, and never given back behind its owner's back
 *   no-orphan     a claim whose token nobody was told is given back
 *   same-key      every attempt at a key derives the same keys for other systems
 *   answered      every request to a server that lives is answered
 */
/** @typedef {import("./stage.js").Stage} Stage */
/** @typedef {import("./stage.js").Play} Play */
/** @typedef {import("./virtual-time.js").SimulatedProcess} SimulatedProcess */
/** @typedef {import("../../../packages/nevertwice/src/claims/index.ts").Claims} Claims */
/** @typedef {import("../../../packages/nevertwice/src/claims/index.ts").ClaimAnswered} ClaimAnswered */
/** @typedef {Extract<ClaimAnswered, { status: "new" }>} Granted */

/**
 * @typedef {object} Caller
 * @property {string} name
 * @property {string} key
 * @property {boolean} hasOwnTokens
 * @property {boolean} givesBack whether its claims are given back although it has tokens
 * @property {number} patienceMs how long it waits for an answer
 * @property {number} workMs
 * @property {number} renewals
 * @property {"complete" | "fail" | "released" | "unknown"} ending
 * @property {number} calls how many more calls it makes at most
 */

const OPERATION = "render";

/** @param {Stage} stage @returns {Play} */
export function claimsDoor(stage) {
  const { random, world, ledger, fail, tell, count, library, times } = stage;
  const policy = {
    leaseMs: times.leaseMs,
    retentionMs: random.pick([2_000, 30_000]),
    storeTimeoutMs: random.pick([20, 60, 130]),
    onLapsed: random.pick(/** @type {const} */ (["takeover", "takeover", "hold"])),
  };
  const callers = Array.from({ length: random.between(2, 4) }, (_, index) => drawCaller(index));
  /** The tokens that callers know. @type {Set<string>} */
  const known = new Set();
  /** The tokens that a caller has given up itself. @type {Set<string>} */
  const givenUp = new Set();
  /** Tokens of callers that must not be given back. @type {Set<string>} */
  const protectedTokens = new Set();
  /** @type {Map<string, string>} */
  const derived = new Map();
  /** The values that a token has completed with. @type {Map<string, string>} */
  const values = new Map();
  /** @type {{ process: SimulatedProcess, isAnswered: boolean, what: string }[]} */
  const requests = [];

  ledger.watch({
    granted: ({ subject, token, owner }) =>
      tell(() => `store: ${subject} is granted to ${token} by ${owner}`),
    ended({ subject, token, end }) {
      tell(() => `store: ${subject} of ${token} is ${end?.kind}`);
      count(`ended ${end?.kind}`);
      if (end?.kind === "completed" && !end.outcome.includes(values.get(token) ?? "nothing"))
        fail("stale-token", "a claim was completed with the value of another token");
      if (end?.kind !== "completed" && protectedTokens.has(token) && !givenUp.has(token))
        fail("own-token", "a claim was given back, and its owner may send its token again");
    },
  });

  /** @param {number} index @returns {Caller} */
  function drawCaller(index) {
    return {
      name: `caller-${index}`,
      key: random.chance(0.9) ? "k1" : "k2",
      hasOwnTokens: random.chance(0.5),
      givesBack: random.chance(0.2),
      patienceMs: random.pick([40, 150, 400]),
      workMs: random.pick([0, random.between(0, 60), random.between(60, 250)]),
      renewals: random.pick([0, 0, 1, 2]),
      ending: random.pick(
        /** @type {const} */ (["complete", "complete", "complete", "fail", "released", "unknown"]),
      ),
      calls: 20,
    };
  }

  /** @param {SimulatedProcess} process */
  function open(process) {
    let tokens = 0;
    const ports = {
      timer: library.systemTimer,
      random: Math.random,
      newToken: () => `server-${process.name}-${tokens++}-0123456789abcdef`,
    };
    return library.createClaims({ store: stage.storeFor(process), purgeEveryMs: 0, ...policy }, ports);
  }

  /**
   * One call to any server: its answer, its error, or undefined if neither came in time.
   * @template T
   * @param {Caller} caller
   * @param {string} what
   * @param {(claims: Claims) => Promise<T>} call
   * @param {(answer: T) => void} judge as the answer leaves the server
   * @returns {Promise<{ readonly answer: T } | { readonly error: any } | undefined>}
   */
  function ask(caller, what, call, judge) {
    caller.calls--;
    const request = { process: /** @type {any} */ (undefined), isAnswered: false, what };
    return new Promise((resolve) => {
      const handle = async (/** @type {Claims} */ claims, /** @type {SimulatedProcess} */ process) => {
        request.process = process;
        requests.push(request);
        try {
          const answer = await call(claims);
          judge(answer);
          return answer;
        } finally {
          request.isAnswered = true;
        }
      };
      stage.send(
        stage.pickSlot(),
        handle,
        (answer) => resolve({ answer }),
        (error) => resolve({ error }),
      );
      world.after(stage.isHealed() ? 2_000 : caller.patienceMs, () => resolve(undefined), null);
    });
  }

  const pause = (/** @type {number} */ ms) =>
    new Promise((resolve) => void world.after(ms, () => resolve(undefined), null));

  /** @param {Caller} caller */
  async function live(caller) {
    let token = freshToken(caller);
    while (caller.calls > 0) {
      const { key, hasOwnTokens, givesBack } = caller;
      const sent = hasOwnTokens ? token : undefined;
      const own = hasOwnTokens ? { token, ...(givesBack && { giveBack: true }) } : {};
      const reply = await ask(
        caller,
        "claim",
        (claims) => claims.claim({ operation: OPERATION, key, ...own }),
        (answer) => judgeClaim(answer, sent),
      );
      if (reply !== undefined && "answer" in reply) {
        const { answer } = reply;
        tell(() => `${caller.name}: ${answer.status}`);
        if (answer.status === "completed") return;
        if (answer.status === "new" && (await work(caller, answer))) return;
        // A caller that gave up, or was told that it lost, is a new attempt.
        if (answer.status === "new") token = freshToken(caller);
        if (answer.status === "pending" && hasOwnTokens && random.chance(0.2)) token = freshToken(caller);
      } else if (givesBack || random.chance(0.2)) {
        // A token whose claims are given back must not be sent again.
        token = freshToken(caller);
      }
      await pause(random.between(5, 80));
    }
  }

  /** @param {Caller} caller */
  function freshToken({ name, hasOwnTokens, givesBack }) {
    const token = `${name}-${known.size}-0123456789abcdef`;
    if (!hasOwnTokens) return token;
    known.add(token);
    if (!givesBack) protectedTokens.add(token);
    return token;
  }

  /** @param {ClaimAnswered} answer @param {string | undefined} token the caller's own */
  function judgeClaim(answer, token) {
    count(`claim ${answer.status}`);
    if (answer.status === "completed") return judgeOutcome(answer.outcome);
    if (answer.status !== "new") return;
    known.add(answer.token);
    if (token !== undefined && answer.token !== token)
      fail("own-token", "a claim got another token than it was sent");
    const attempt = ledger.byToken(answer.id, answer.token);
    if (attempt?.fence !== answer.fence)
      fail("own-token", "a claim was answered as new that the store has not granted");
    const derivedKey = answer.deriveKey("charge");
    if ((derived.get(answer.id) ?? derivedKey) !== derivedKey)
      fail("same-key", "an attempt derived another key");
    derived.set(answer.id, derivedKey);
  }

  /** @param {unknown} outcome */
  function judgeOutcome(outcome) {
    const text =
      outcome instanceof Object && "error" in outcome ? String(outcome.error) : JSON.stringify(outcome);
    const [token] = [...values].find(([, value]) => text.includes(value)) ?? [];
    const isCompleted = [...allAttempts()].some(
      (attempt) => attempt.token === token && attempt.end?.kind === "completed",
    );
    if (!isCompleted)
      fail("same-answer", `a key is completed with a value that no token completed it with: ${text}`);
  }

  const allAttempts = () => ["k1", "k2"].flatMap((key) => ledger.all(`|${OPERATION}|${key}`));

  /** Works on the claim. True if the caller needs nothing more. @param {Caller} caller @param {Granted} granted */
  async function work(caller, granted) {
    const { id, token } = granted;
    const value = `value of ${caller.name} ${token}`;
    values.set(token, value);
    for (let renewal = 0; renewal < caller.renewals; renewal++) {
      await pause(caller.workMs / 2);
      await ask(
        caller,
        "renew",
        (claims) => claims.renew({ id, token }),
        (isOurs) => judgeRenewal(id, token, isOurs),
      );
    }
    await pause(caller.workMs);
    switch (caller.ending) {
      case "complete":
        return settle(caller, granted, { value });
      case "fail":
        return settle(caller, granted, { error: new Error(value) });
      default: {
        const as = caller.ending;
        caller.ending = "complete";
        givenUp.add(token);
        await ask(
          caller,
          "abandon",
          (claims) => claims.abandon({ id, token, as }),
          (isOurs) => judgeAbandon(id, token, as, isOurs),
        );
        return false;
      }
    }
  }

  /**
   * Completes until an answer comes.
   * @param {Caller} caller
   * @param {Granted} granted
   * @param {{ value: unknown } | { error: unknown }} content
   */
  async function settle(caller, { id, token }, content) {
    while (caller.calls > 0) {
      const reply = await ask(
        caller,
        "complete",
        (claims) => claims.complete({ id, token, ...content }),
        (isOurs) => judgeCompletion(id, token, isOurs),
      );
      if (reply !== undefined && "answer" in reply) return reply.answer;
      await pause(random.between(1, 40));
    }
    return true;
  }

  /** @param {string} id @param {string} token @param {boolean} isOurs */
  function judgeCompletion(id, token, isOurs) {
    count(`complete ${isOurs}`);
    const attempt = ledger.byToken(id, token);
    const isCompleted = attempt?.end?.kind === "completed";
    tell(() => `complete of ${token}: ${isOurs}`);
    if (isOurs && !isCompleted)
      fail("stale-token", `${token} was told that it has completed its claim, and it has not`);
    if (
      !isOurs &&
      attempt !== undefined &&
      isCompleted &&
      ledger.isKept(attempt) &&
      ledger.isCurrent(attempt)
    )
      fail("same-answer", `${token} has completed its claim, and was told that it has not`);
  }

  /** @param {string} id @param {string} token @param {boolean} isOurs */
  function judgeRenewal(id, token, isOurs) {
    count(`renew ${isOurs}`);
    const attempt = ledger.byToken(id, token);
    if (isOurs && attempt === undefined)
      fail("stale-token", `${token} has renewed a claim that it never had`);
  }

  /** @param {string} id @param {string} token @param {string} as @param {boolean} isOurs */
  function judgeAbandon(id, token, as, isOurs) {
    count(`abandon ${isOurs}`);
    const attempt = ledger.byToken(id, token);
    const kind = attempt?.end?.kind;
    if (isOurs && kind !== as) fail("stale-token", `a claim was given up as ${kind}, not as ${as}`);
    const mayBeGone = policy.retentionMs < times.endMs / 3;
    if (!isOurs && attempt !== undefined && kind === as && ledger.isCurrent(attempt) && !mayBeGone)
      fail("same-answer", "a claim was given up, and its owner was told that it was not");
  }

  function plan() {
    for (const caller of callers) {
      const at = random.chance(0.5) ? random.between(0, 20) : random.between(0, 500);
      world.after(at, () => void live({ ...caller }), null);
    }
  }

  function check() {
    for (const { process, isAnswered, what } of requests)
      if (!process.isDead && !isAnswered) fail("answered", `a ${what} at ${process.name} was never answered`);
    const living = new Set(stage.slots.map(({ process }) => process.name));
    // A claim that arrives after it was given back, and whose answer is lost too, can only lapse.
    for (const { owner, token, end, isOvertaken, isLate } of allAttempts())
      if (living.has(owner) && end === undefined && !isOvertaken && !isLate && !known.has(token))
        fail("no-orphan", "a claim was granted, nobody was told its token, and it was not given back");
  }

  return { open, plan, check, scenario: { policy, callers } };
}
