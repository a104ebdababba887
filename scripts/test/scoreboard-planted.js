/** Two libraries that are broken on purpose: between them, every scenario of the scoreboard must fail. */

/** Runs the work every time, and remembers nothing. */
export const unguarded = {
  name: "unguarded",
  clients: { "no client": undefined },
  hasLease: true,

  /** @param {any} options */
  async open({ wrap = (/** @type {any} */ store) => store }) {
    // Its store is asked and ignored, so that faults meet it.
    const store = wrap({ claim: async () => {} });
    return {
      loseRecords() {},
      /** @type {(request: any, work: (body: any) => Promise<any>) => Promise<any>} */
      async call({ body }, work) {
        await Promise.race([store.claim(), pause(100)]).catch((error) => error);
        return work(body).then(
          (value) => ({ value }),
          (error) => ({ refusal: "failed", message: error.message }),
        );
      },
      async close() {},
    };
  },

  /** @param {any} options */
  async openHttp({ handle }) {
    return startExpress({ handle });
  },
};

/** Keeps the first outcome for ever and for every key, and keeps its key for ever if its owner is lost. */
export const frozen = {
  name: "frozen",
  clients: { "no client": undefined },
  hasLease: true,

  /** @param {any} options */
  async open({ target, wrap = (/** @type {any} */ store) => store }) {
    target.record ??= { state: "absent" };
    const { record } = target;
    let isClosed = false;
    const store = wrap({
      async claim() {
        if (record.state !== "absent") return { ...record };
        record.state = "pending";
        return { state: "new" };
      },
      async complete(/** @type {any} */ value) {
        Object.assign(record, { state: "done", value });
      },
    });
    return {
      /** @type {(request: any, work: (body: any) => Promise<any>) => Promise<any>} */
      async call({ body }, work) {
        try {
          const { state, value } = await store.claim();
          if (state === "done") return { value };
          if (state === "pending") {
            await pause(100);
            return { refusal: "pending", message: "it is running" };
          }
          const outcome = await work(body);
          if (!isClosed) await store.complete(outcome);
          return { value: outcome };
        } catch (error) {
          return { refusal: "failed", message: String(error) };
        }
      },
      async close() {
        isClosed = true;
      },
    };
  },

  /** @param {any} options */
  async openHttp({ handle }) {
    /** @type {any} */
    let first;
    return startExpress({
      handle: async (/** @type {any} */ request) => {
        first ??= await handle(request);
        return first;
      },
    });
  },
};

/** @param {any} options */
async function startExpress(options) {
  // Its path is made here, so that the type checker does not read the scoreboard.
  const { startExpress: start } = await import(
    new URL("../../scoreboard/express-server.js", import.meta.url).href
  );
  return start(options);
}

/** @param {number} ms */
function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
