/** The worker thread of `pool.js`: runs ranges of schedules and reports on each. */
import { parentPort, workerData } from "node:worker_threads";
import { etcdClients } from "./etcd-clients.js";

// A simulation creates thousands of timeouts, and their stacks are never read.
Error.stackTraceLimit = 0;

const { simulate } = await import(workerData.simulation);
const clients = workerData.store === "etcd" ? await etcdClientsOf(workerData.simulation) : undefined;
parentPort?.on("message", async (range) => parentPort?.postMessage(await simulate({ ...range, clients })));

/** @param {string} simulation its URL in the build, next to which the store is */
async function etcdClientsOf(simulation) {
  const { etcdStore } = await import(new URL("../stores/etcd.js", simulation).href);
  return etcdClients(etcdStore);
}
