/** What a scenario works with: subjects of one library, the ledger of effects, other processes, and faults. */
import { setTimeout as sleep } from "node:timers/promises";
import { startChild } from "./child-process.js";
import { NotApplicable } from "./judgement.js";
import { openLedger } from "./ledger.js";
import { startNetworkFaults } from "./network-faults.js";
import { slowness } from "./slowness.js";
import { createStoreFaults } from "./store-faults.js";

/** The lease of owners that are slow, lost or overtaken, on a machine that is not busy. */
const LEASE_MS = 2_000;

/** Expired records on a server or in a file; libraries in memory have more. `--backlog` changes it. */
const BACKLOG = 20_000;

/** A handler that never returns must not keep the run open. */
const CLOSE_MS = 2_000;

/**
 * `target` is where the library keeps its records in this run: nothing, a file, or a server of its own part. The tests make
 * the run smaller by `backlog`, `faultLeaseMs` and `patienceMs`.
 */
export function createContext({
  library,
  target,
  ledgerFile,
  backlog,
  faultLeaseMs = 8_000,
  patienceMs = 12_000,
}) {
  const slow = slowness();
  const ledger = openLedger(ledgerFile);
  const toClose = [];
  const place = { ...target, directUrl: target.url };

  async function open(options = {}) {
    const subject = await library.open({ ...options, target: place });
    toClose.push(subject);
    return subject;
  }

  async function openHttp(options) {
    if (library.openHttp === undefined) throw new NotApplicable("It has no HTTP layer.");
    const server = await library.openHttp({ ...options, target: place });
    toClose.push(server);
    return server;
  }

  return {
    library,
    place,
    leaseMs: LEASE_MS * slow,
    faultLeaseMs: faultLeaseMs * slow,
    backlog: backlog ?? library.backlog ?? BACKLOG,
    open,
    openHttp,

    /** Work with an effect: one line of the ledger, then `ms` of waiting, then a value or an error. */
    work:
      (effect, { ms = 0, value = effect, error, until } = {}) =>
      async () => {
        ledger.record(effect);
        if (ms > 0) await sleep(ms);
        await until;
        if (error !== undefined) throw error;
        return value;
      },
    /** Calls, and returns once the work has begun: the promise of its answer in an object, so that it is not awaited. */
    async begin(subject, request, work) {
      let answer;
      await new Promise((resolve, reject) => {
        answer = subject.call(request, (...args) => {
          resolve();
          return work(...args);
        });
        answer.then(resolve, reject);
      });
      return { answer };
    },
    /** Calls like a client that retries after every refusal, for `ms`. The last answer. */
    async callUntilAnswered(subject, request, work, ms = patienceMs * slow) {
      const giveUpAt = performance.now() + ms;
      for (;;) {
        const answer = await subject.call({ waitMs: 2_000, ...request }, work);
        if (answer.refusal === undefined || performance.now() > giveUpAt) return answer;
        await sleep(200);
      }
    },
    record: (effect) => ledger.record(effect),
    effects: (effect) => ledger.count(effect),

    /** Another process of the application, with the same store. */
    async child(options) {
      const child = await startChild({ library: library.name, target, ledgerFile, ...options });
      toClose.push(child);
      return child;
    },

    /** Opens a subject behind faults: a proxy for a server, a wrapper for a store in this process. */
    async openWithFaults(options = {}) {
      if (target.url !== undefined) {
        const faults = await startNetworkFaults(target.url);
        toClose.unshift(faults);
        const subject = await library.open({
          ...options,
          hasFaults: true,
          target: { ...place, url: faults.url },
        });
        toClose.push(subject);
        return { faults, subject };
      }
      if (library.place === undefined && library.takesStores === false)
        throw new NotApplicable("Its records are in its own process, where nothing can fail.");
      const faults = createStoreFaults();
      return { faults, subject: await open({ ...options, hasFaults: true, wrap: faults.wrap }) };
    },

    async close() {
      // The last first: a subject is closed before the proxy that it talks through.
      for (const each of toClose.reverse())
        await Promise.race([each.close(), sleep(CLOSE_MS)]).catch(() => {});
      ledger.close();
    },
  };
}
