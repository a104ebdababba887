/** The gateway, compared with the same proxy without its layer, and claims over the HTTP API. */

/** @typedef {{ runs: number, keys: number, warmup: number, connections: number }} Size */

/**
 * A proxy in front of the service, or the API itself.
 *
 * @typedef {object} Subject
 * @property {"plain" | "gateway" | "api"} role
 * @property {string} name
 * @property {readonly string[]} packages whose versions matter
 * @property {string} settings
 */

/** @type {Subject} */
export const plain = {
  role: "plain",
  name: "plain proxy",
  packages: [],
  settings: "the gateway's own proxy behind a listener of `node:http`, without the layer and without a store",
};

/** @type {Subject} */
export const ours = {
  role: "gateway",
  name: "gateway",
  packages: [],
  settings:
    '`createServer({ store: "sqlite:…", upstream, gatewayScope: header Authorization })`, every other option at its default',
};

/** @type {Subject} */
export const api = {
  role: "api",
  name: "HTTP API",
  packages: [],
  settings: "`POST /v1/claims` of the same server",
};

/** @typedef {typeof gateway.tables[number]} Table */

export const gateway = {
  name: "gateway",
  title: "The gateway in front of a service",
  usesLoad: true,
  quick: { runs: 1, keys: 4_000, warmup: 2_000 },
  tables: [
    {
      title: "On SQLite",
      durability:
        "`synchronous=FULL`: a claim is on the disk before the service gets the request, and its outcome before the answer is sent",
      servers: {},
      ratioMeant: 0.6,
      /** @type {Size} */
      size: { runs: 5, keys: 20_000, warmup: 10_000, connections: 64 },
    },
  ],
};
