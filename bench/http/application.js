/** Starts one application in its own process, and controls it. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** @typedef {{ ran: number, processorMicroseconds: number, profiles?: import("../profile.js").Profile[] }} Counted */

/**
 * @param {object} plan as the script takes it
 * @param {string} [script] relative to this folder
 */
export async function startApp(plan, script = "serve.js") {
  const child = fork(fileURLToPath(new URL(script, import.meta.url)), [JSON.stringify(plan)], {
    execArgv: ["--expose-gc"],
    serialization: "advanced",
    env: { ...process.env, NODE_ENV: "production" },
    // Express prints every error that a middleware passes on; they are shown only if the application ends.
    stdio: ["ignore", "inherit", "pipe", "ipc"],
  });
  let said = "";
  child.stderr?.on("data", (chunk) => {
    said = (said + chunk).slice(-4_000);
  });
  const died = once(child, "exit").then(([code]) => {
    throw new Error(`the application ended with code ${code}\n${said}`);
  });
  // Each waiting call gets this rejection. After the end no call waits.
  died.catch(() => {});

  /** @returns {Promise<any>} */
  const message = async () => (await Promise.race([once(child, "message"), died]))[0];
  const { port } = await message();

  return {
    /** @type {number} */
    port,

    /**
     * @template T
     * @param {() => Promise<T>} requests
     * @param {boolean} isProfiled
     * @returns {Promise<Counted & { answer: T }>}
     */
    async during(requests, isProfiled = false) {
      const begun = message();
      child.send({ kind: "begin", isProfiled });
      await begun;
      const answer = await Promise.race([requests(), died]);
      const ended = message();
      child.send({ kind: "end" });
      return { ...(await ended), answer };
    },

    async stop() {
      if (child.exitCode !== null) return;
      const exited = once(child, "exit");
      child.send({ kind: "stop" });
      await exited;
    },
  };
}
