/** The entry point for programs that start the server from code; `nevertwice serve` starts it from the command line. */
export { type Access, type AccessToken, type Caller, createAccess, type Role } from "./access.ts";
export { configOf, readConfig, type ServerConfig } from "./config.ts";
export { ConfigError } from "./config-error.ts";
export type { GatewayRule, ScopeRule } from "./gateway/gateway-rules.ts";
export { createServer, type NevertwiceServer } from "./server.ts";
