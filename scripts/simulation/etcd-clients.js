/** The clients of a simulation on a model of etcd. They poll: the model has no streams. */
import { modelEtcd } from "./etcd-model.js";

/** @typedef {import("../../packages/nevertwice/src/testing/simulation.ts").SimulatedClients} SimulatedClients */
/** @typedef {Parameters<ReturnType<SimulatedClients["create"]>>[0]} Clocks */

/** The wall clocks differ by up to a quarter of it, which is much longer than a schedule. */
const CLOCK_SKEW_MS = 3_600_000;

/**
 * @param {typeof import("../../packages/nevertwice/src/stores/etcd.ts").etcdStore} etcdStore
 * @param {(clocks: Clocks) => Clocks} [clocksOf] replaces the clocks of a client, to break it on purpose
 * @returns {SimulatedClients}
 */
export function etcdClients(etcdStore, clocksOf = (clocks) => clocks) {
  return {
    clockSkewMs: CLOCK_SKEW_MS,
    create() {
      const fetch = modelEtcd();
      const options = { endpoints: "http://model", fetch, clockSkewMs: CLOCK_SKEW_MS };
      return (clocks) => {
        const { watch: _, ...store } = etcdStore({ ...options, ...clocksOf(clocks) });
        return store;
      };
    },
  };
}
