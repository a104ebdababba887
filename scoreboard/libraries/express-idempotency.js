/** express-idempotency in memory, whose handlers have to ask whether the request is answered already. */
import expressIdempotency from "express-idempotency";
import { callOverHttp } from "../call-over-http.js";
import { startExpress } from "../express-server.js";
import { decideByStatus } from "./steadykey.js";

const { getSharedIdempotencyService, idempotency } = expressIdempotency;
const NO_LEASE = "It has no lease: a key is locked until its answer is sent.";
const NO_RETENTION = "It has no retention: a key is kept until the process ends.";

export const expressIdempotencyRows = [
  {
    name: "express-idempotency",
    title: "express-idempotency, memory",
    packages: ["express-idempotency"],
    documentation: "https://www.npmjs.com/package/express-idempotency/v/1.0.6",
    settings: "`app.use(idempotency())` behind the body parser; handlers return early on `isHit`; Express 4.",
    without: {
      2: NO_RETENTION,
      4: NO_LEASE,
      5: NO_LEASE,
      19: NO_RETENTION,
      21: NO_RETENTION,
    },
    takesStores: false,
    clients: { "no client": undefined },
    open: (options) => callOverHttp(openHttp, options),
    openHttp,
  },
];

async function openHttp({ target, handle, keep, application = "shop" }) {
  // All servers of one application share its layer, which has the records.
  target.layers ??= {};
  target.layers[application] ??= idempotency({
    ...(keep && {
      responseValidator: { isValidForPersistence: ({ statusCode }) => decideByStatus(keep, statusCode) },
    }),
  });
  return startExpress({
    after: [target.layers[application]],
    isAnswered: (req) => getSharedIdempotencyService().isHit(req),
    handle,
  });
}
