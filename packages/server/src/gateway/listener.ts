/** The gateway's listeners and node's own limits on them: how long a head may take, and how large it may be. */
import { readFileSync } from "node:fs";
import { createServer, type Server, type ServerOptions } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { ServerConfig } from "../config.ts";
import { MAX_HEADER_LINES } from "./head-check.ts";

type ListenerConfig = Pick<ServerConfig, "headTimeout" | "tlsCert" | "tlsKey" | "gatewayClientCa">;

/** Node looks for late heads at intervals. */
const CHECKS = 4;
const LEAST_INTERVAL_MS = 50;

export function createListener(config: ListenerConfig): Server {
  const { tlsCert, tlsKey, gatewayClientCa, headTimeout } = config;
  if (tlsCert === undefined || tlsKey === undefined) return createPlainListener(config);
  const server = createTlsServer({
    ...limitsOf(config),
    handshakeTimeout: headTimeout,
    cert: readFileSync(tlsCert),
    key: readFileSync(tlsKey),
    // A client without one is let in where no rule asks for it.
    ...(gatewayClientCa !== undefined && {
      ca: readFileSync(gatewayClientCa),
      requestCert: true,
      rejectUnauthorized: false,
    }),
  });
  return withHeaderLimit(server);
}

export function createPlainListener(config: ListenerConfig): Server {
  return withHeaderLimit(createServer(limitsOf(config)));
}

function limitsOf({ headTimeout }: ListenerConfig): ServerOptions {
  return {
    headersTimeout: headTimeout,
    // How long a whole request may take is the service's to say; how long it may pause is not node's to count.
    requestTimeout: 0,
    connectionsCheckingInterval: Math.max(LEAST_INTERVAL_MS, Math.ceil(headTimeout / CHECKS)),
    insecureHTTPParser: false,
  };
}

/** One more than is allowed, so that it can be told that there were too many. */
function withHeaderLimit(server: Server): Server {
  server.maxHeadersCount = MAX_HEADER_LINES + 1;
  return server;
}
