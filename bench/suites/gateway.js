/** The gateway, compared with the same proxy without its layer, and claims over the HTTP API. */

/** @typedef {{ runs: number, keys: number, warmup: number, connections: number }} Size */

/**
 * What is measured: a proxy in front of the service, or the API itself.
 *
 * @typedef {object} Subject
 * @property {"plain" | "gateway" | "api"} role
 * @property {string} name
 * @property {string} settings
 */

/** @type {Subject} */
export const plain = {
  role: "plain",
  name: "plain proxy",
  settings: "the gateway's own proxy on `node:http`, without the layer and without a store",
};

/** @type {Subject} */
export const ours = {
  role: "gateway",
  name: "gateway",
  settings:
    '`createServer({ store: "sqlite:…", upstream, gatewayScope: header Authorization })`, all else at its default',
};

/** @type {Subject} */
export const api = {
  role: "api",
  name: "HTTP API",
  settings: "`POST /v1/claims` of the same server",
};

export const gateway = {
  name: "gateway",
  title: "The gateway before a service",
  durability:
    "SQLite with `synchronous=FULL`: a claim is on the disk before the service is asked, and its outcome before the answer leaves.",
  ratioMeant: 0.7,
  /** @type {Size} */
  size: { runs: 5, keys: 20_000, warmup: 10_000, connections: 64 },
};
