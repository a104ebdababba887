/** The settings of the gateway: its service, its clients, and the limits on both. */
import { isIP } from "node:net";
import { ConfigError } from "./config-error.ts";
import { readScopeText, type ScopeRule } from "./gateway-rules.ts";
import {
  type Address,
  atLeast,
  duration,
  plain,
  readAddress,
  readCount,
  type Setting,
  splitList,
} from "./setting.ts";
import { withoutPassword } from "./shown-url.ts";

export const GATEWAY_SETTINGS = {
  upstream: {
    default: undefined,
    read: readUpstream,
    value: "URL",
    what: "URL of the service behind the gateway",
    secret: "password",
  } as Setting<string | undefined>,
  gatewayListen: {
    default: { host: "127.0.0.1", port: 8080 },
    read: readAddress,
    value: "HOST:PORT",
    what: "Address of the gateway",
  } as Setting<Address>,
  gatewayScope: {
    default: undefined,
    read: readScopeText,
    value: "SCOPE",
    what: "Owner of the keys of requests that no route of the file is about",
  } as Setting<ScopeRule | undefined>,
  gatewayClientCa: {
    default: undefined,
    read: plain,
    value: "FILE",
    what: "Certificate authority of the gateway's clients, a PEM file",
  } as Setting<string | undefined>,
  upstreamTimeout: {
    default: 60_000,
    read: duration,
    value: "DURATION",
    what: "How long the service may take until it begins to answer, and between two pieces of its answer",
    check: atLeast(1, "1ms or more"),
  } as Setting<number>,
  upstreamKeepAlive: {
    default: 4_000,
    read: duration,
    value: "DURATION",
    what: "How long an idle connection to the service is kept for another request; 0s opens one for each",
    check: atLeast(0, "0s or more"),
  } as Setting<number>,
  upstreamHost: {
    default: "client",
    read: readUpstreamHost,
    value: "client|upstream",
    what: "The Host that the service sees: the one that the client called, or its own",
  } as Setting<"client" | "upstream">,
  trustProxy: {
    default: [],
    read: readAddresses,
    value: "ADDRESS",
    what: "Addresses of proxies in front of the gateway whose forwarding headers are believed",
    many: true,
  } as Setting<readonly string[]>,
  headTimeout: {
    default: 10_000,
    read: duration,
    value: "DURATION",
    what: "How long a client of the gateway may take to send the head of a request",
    check: atLeast(1, "1ms or more"),
  } as Setting<number>,
  bodyTimeout: {
    default: 30_000,
    read: duration,
    value: "DURATION",
    what: "How long a client of the gateway may pause while it sends a body, or while it reads an answer",
    check: atLeast(1, "1ms or more"),
  } as Setting<number>,
  tunnelTimeout: {
    default: 600_000,
    read: duration,
    value: "DURATION",
    what: "How long a WebSocket through the gateway may be silent",
    check: atLeast(1, "1ms or more"),
  } as Setting<number>,
  maxConnections: {
    default: 2_000,
    read: readCount,
    value: "COUNT",
    what: "How many clients may be connected to the gateway at once; fewer where the process may not open as many files",
    check: atLeast(1, "1 or more"),
  } as Setting<number>,
  maxConnectionsPerAddress: {
    default: 256,
    read: readCount,
    value: "COUNT",
    what: "How many clients may be connected from one address, or one /64 network of IPv6; a trusted proxy has no such limit",
    check: atLeast(1, "1 or more"),
  } as Setting<number>,
  maxBufferedBytes: {
    default: 67_108_864,
    read: readCount,
    value: "BYTES",
    what: "How many bytes of request bodies, and as many of answers, the gateway holds in memory at once",
    check: atLeast(65_536, "65536 or more"),
  } as Setting<number>,
  quotaKeys: {
    default: undefined,
    read: readCount,
    value: "COUNT",
    what: "How many keys one owner may have alive in the gateway",
    check: atLeast(1, "1 or more"),
  } as Setting<number | undefined>,
  quotaBytes: {
    default: undefined,
    read: readCount,
    value: "BYTES",
    what: "How many bytes of answers the gateway keeps for one owner",
    check: atLeast(1, "1 or more"),
  } as Setting<number | undefined>,
  quotaTotalKeys: {
    default: 20_000_000,
    read: readCount,
    value: "COUNT",
    what: "How many keys all owners together may have alive in the gateway",
    check: atLeast(1, "1 or more"),
  } as Setting<number>,
  quotaTotalBytes: {
    default: 21_474_836_480,
    read: readCount,
    value: "BYTES",
    what: "How many bytes of answers the gateway keeps for all owners together",
    check: atLeast(1, "1 or more"),
  } as Setting<number>,
} as const;

function readUpstream(name: string, value: string): string {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (
    url === undefined ||
    !["http:", "https:"].includes(url.protocol) ||
    url.search !== "" ||
    url.hash !== ""
  )
    throw new ConfigError(
      name,
      withoutPassword(value),
      'the address of a service, e.g. "http://127.0.0.1:3000"',
    );
  return value;
}

function readUpstreamHost(name: string, value: string): "client" | "upstream" {
  if (value === "client" || value === "upstream") return value;
  throw new ConfigError(name, value, "client or upstream");
}

function readAddresses(name: string, value: string): readonly string[] {
  const entries = splitList(value);
  const isFit = (entry: string) => {
    const [address = "", bits, ...more] = entry.split("/");
    const most = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
    return (
      more.length === 0 && most > 0 && (bits === undefined || (/^\d+$/.test(bits) && Number(bits) <= most))
    );
  };
  if (entries.every(isFit)) return entries;
  throw new ConfigError(name, value, 'addresses or networks, e.g. "10.0.0.0/8, ::1"');
}
