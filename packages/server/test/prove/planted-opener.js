/**
 * Opens the store of the library with a bug, which the variable NEVERTWICE_PLANTED names: what clients and libraries of this kind
 * really do when a process, a connection or a clock fails.
 */
import { openStore as open } from "nevertwice/stores/open";

/** @typedef {import("nevertwice").Store} Store */

/** The first two processes of a run are p1 and p2. */
const IS_REPLACEMENT = Number((process.argv[2] ?? "").slice(1)) > 2;
/** A clock that counts its own ticks, so it stands still while the process does. */
let ticksMs = 0;
setInterval(() => {
  ticksMs += 10;
}, 10).unref();

/** @type {Readonly<Record<string, (store: Store) => Partial<Store>>>} */
const PLANTED_BUGS = {
  "a process that replaces another takes over what runs": (store) => {
    let left = IS_REPLACEMENT ? 30 : 0;
    return {
      async claim(request) {
        const answer = await store.claim(request);
        if (answer.status !== "pending" || left-- <= 0) return answer;
        return { status: "new", fence: Date.now() * 1_000, number: 1, tookOver: false };
      },
    };
  },
  "an owner trusts a clock that stood still": (store) => {
    const ends = new Map();
    return {
      async claim(request) {
        const sentAt = ticksMs;
        const answer = await store.claim(request);
        if (answer.status === "new") ends.set(request.token, sentAt + request.leaseMs);
        return answer;
      },
      async complete(request) {
        return (await store.complete(request)) || (ends.get(request.token) ?? 0) > ticksMs;
      },
    };
  },
  "a completion without an answer counts as done": (store) => ({
    complete: (request) => store.complete(request).catch(() => true),
  }),
  "a claim without an answer counts as granted": (store) => ({
    claim: (request) =>
      store
        .claim(request)
        .catch(() => ({ status: "new", fence: Date.now() * 1_000, number: 1, tookOver: false })),
  }),
  "a slow claim is sent again under a new token": (store) => ({
    async claim(request) {
      const slow = new Promise((resolve) => setTimeout(() => resolve("slow"), 60));
      const asked = store.claim(request);
      asked.catch(() => {});
      const first = await Promise.race([asked, slow]);
      return first === "slow" ? store.claim({ ...request, token: `${request.token} again` }) : first;
    },
  }),
  "a slow read is answered from memory": (store) => {
    const remembered = new Map();
    return {
      async read(id) {
        const slow = new Promise((resolve) => setTimeout(() => resolve("slow"), 20));
        const asked = store.read(id).then((record) => {
          remembered.set(id, record);
          return record;
        });
        asked.catch(() => {});
        const first = await Promise.race([asked, slow]);
        return first === "slow" && remembered.has(id) ? remembered.get(id) : asked;
      },
    };
  },
  "a whole lease that is left counts as a clock that went back, and the key as free": (store) => ({
    async claim(request) {
      const answer = await store.claim(request);
      if (answer.status !== "pending" || answer.leaseLeftMs < request.leaseMs) return answer;
      return { status: "new", fence: Date.now() * 1_000, number: 2, tookOver: true };
    },
  }),
};

/**
 * @param {string} url
 * @param {{ migrate?: boolean }} options
 * @returns {Promise<Store>}
 */
export async function openStore(url, options) {
  const store = await open(url, options);
  const bug = PLANTED_BUGS[process.env.NEVERTWICE_PLANTED ?? ""];
  return bug === undefined ? store : Object.assign(Object.create(store), bug(store));
}
