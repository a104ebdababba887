/** What a key and a call cost on each store. Written by `npm run bench -- capacity`; do not edit. */
import type { Coefficients, PlannedStore } from "./capacity.ts";

export const MEASURED = {
  date: "2026-11-19",
  on: "Node 20.20.2, linux x64, 2 logical processors",
  outcomes: [100, 1000, 4000],
};

export const COEFFICIENTS: Readonly<Record<PlannedStore, Coefficients>> = {
  sqlite: {
    bytes: { fixed: 334, perByte: 1.09 },
    first: { client: 117 },
    replay: { client: 18.8 },
    purge: { perSecond: 8510, client: 18.4 },
  },
  postgres: {
    bytes: { fixed: 899, perByte: 1.35 },
    memory: { fixed: 283, perByte: -0.00923 },
    log: { fixed: 1230, perByte: 1.09 },
    first: { client: 79.2, server: 43.1 },
    replay: { client: 17.7, server: 8.94 },
    purge: { perSecond: 10400, client: 5.25, server: 12.5 },
    ids: {
      hashed: { index: 98.7, log: 19500, compressedLog: 12100 },
      ordered: { index: 81.5, log: 13500, compressedLog: 7420 },
    },
  },
  mysql: {
    bytes: { fixed: 290, perByte: 1.76 },
    memory: { fixed: 290, perByte: 1.76 },
    log: { fixed: 3540, perByte: 2.26 },
    first: { client: 582, server: 700 },
    replay: { client: 97.7, server: 75 },
    purge: { perSecond: 5580, client: 11.9, server: 25 },
  },
  redis: {
    bytes: { fixed: 237, perByte: 1.26 },
    memory: { fixed: 237, perByte: 1.26 },
    log: { fixed: 523, perByte: 1 },
    first: { client: 54.3, server: 13.7 },
    replay: { client: 13.2, server: 2.77 },
  },
  "redis-cluster": {
    bytes: { fixed: 236, perByte: 1.26 },
    memory: { fixed: 236, perByte: 1.26 },
    log: { fixed: 530, perByte: 1 },
    first: { client: 101, server: 41.4 },
    replay: { client: 28.3, server: 9.33 },
  },
  dynamodb: { bytes: { fixed: 367, perByte: 1 }, first: { client: 2840 }, replay: { client: 2310 } },
};
