/** Creates the HTTP servers of the gateway, with node's limits for the time and size of request headers. */
import { readFileSync } from "node:fs";
import { createServer, type Server, type ServerOptions } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { ServerConfig } from "../config.ts";
import { MAX_HEADER_LINES } from "./head-check.ts";

type ListenerConfig = Pick<
  ServerConfig,
  "headTimeout" | "clientKeepAlive" | "tlsCert" | "tlsKey" | "gatewayClientCa"
>;

/** Node checks for late headers at intervals: this often within the timeout. */
const CHECKS = 4;
const MIN_INTERVAL_MS = 50;

export function createListener(config: ListenerConfig): Server {
  const { tlsCert, tlsKey, gatewayClientCa, headTimeout } = config;
  if (tlsCert === undefined || tlsKey === undefined) return createPlainListener(config);
  const server = createTlsServer({
    ...listenerLimits(config),
    handshakeTimeout: headTimeout,
    cert: readFileSync(tlsCert),
    key: readFileSync(tlsKey),
    // A client without a certificate may connect; only rules with a certificate scope refuse it.
    ...(gatewayClientCa !== undefined && {
      ca: readFileSync(gatewayClientCa),
      requestCert: true,
      rejectUnauthorized: false,
    }),
  });
  return withHeaderLimit(server);
}

export function createPlainListener(config: ListenerConfig): Server {
  return withHeaderLimit(createServer(listenerLimits(config)));
}

function listenerLimits({ headTimeout, clientKeepAlive }: ListenerConfig): ServerOptions {
  return {
    headersTimeout: headTimeout,
    // The service decides how long a whole request may take; `connections.ts` limits pauses.
    requestTimeout: 0,
    keepAliveTimeout: clientKeepAlive,
    connectionsCheckingInterval: Math.max(MIN_INTERVAL_MS, Math.ceil(headTimeout / CHECKS)),
    insecureHTTPParser: false,
  };
}

/** One line more than allowed, so that `checkHead` can see that there were too many. */
function withHeaderLimit(server: Server): Server {
  server.maxHeadersCount = MAX_HEADER_LINES + 1;
  return server;
}
