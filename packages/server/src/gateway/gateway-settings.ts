/** The settings of the gateway: the service behind it, its clients, and the limits for both. */
import { isIP } from "node:net";
import { ConfigError } from "../config-error.ts";
import { KEEP_ALIVE_TIMEOUT_MS } from "../keep-alive-timeout.ts";
import { redactUrl } from "../redacted-url.ts";
import { REGION_NAME } from "../regions/home-map.ts";
import {
  atLeast,
  type ListenAddress,
  readAddress,
  readCount,
  readDuration,
  readText,
  type ServerSetting,
  splitList,
} from "../server-setting.ts";
import { readScopeText, type ScopeRule } from "./gateway-rules.ts";

/** The gateway of another region. */
export interface RegionGateway {
  readonly name: string;
  readonly url: string;
}

const REGION_WANTED = "1 to 32 lower-case letters, digits and hyphens, e.g. eu-west";

export const GATEWAY_SETTINGS = {
  upstream: {
    default: undefined,
    read: readUpstream,
    value: "URL",
    what: "URL of the service behind the gateway",
    secret: "password",
  } as ServerSetting<string | undefined>,
  gatewayListen: {
    default: { host: "127.0.0.1", port: 8080 },
    read: readAddress,
    value: "HOST:PORT",
    what: "Address of the gateway",
  } as ServerSetting<ListenAddress>,
  gatewayScope: {
    default: undefined,
    read: readScopeText,
    value: "SCOPE",
    what: "How to find the owner of a key for requests that match no route of the file",
  } as ServerSetting<ScopeRule | undefined>,
  gatewayClientCa: {
    default: undefined,
    read: readText,
    value: "FILE",
    what: "PEM file with the certificate authority of the gateway's clients",
  } as ServerSetting<string | undefined>,
  upstreamTimeout: {
    default: 60_000,
    read: readDuration,
    value: "DURATION",
    what: "How long the service may take to start its response, and between two chunks of it",
    check: atLeast(1, "1ms or more"),
  } as ServerSetting<number>,
  upstreamKeepAlive: {
    default: 4_000,
    read: readDuration,
    value: "DURATION",
    what: "How long an idle connection to the service stays open for reuse; 0s opens a new one for each request",
    check: atLeast(0, "0s or more"),
  } as ServerSetting<number>,
  upstreamHost: {
    default: "client",
    read: readUpstreamHost,
    value: "client|upstream",
    what: "The Host header that the service receives: the client's, or the host of `upstream`",
  } as ServerSetting<"client" | "upstream">,
  region: {
    default: undefined,
    read: readText,
    value: "NAME",
    what: "Name of the region of this gateway; it then runs only the requests of owners whose home is here",
    check: { wanted: REGION_WANTED, is: (name) => REGION_NAME.test(name) },
  } as ServerSetting<string | undefined>,
  regionGateway: {
    default: [],
    read: readRegionGateways,
    value: "NAME=URL",
    what: "The gateways of the other regions",
    many: true,
  } as ServerSetting<readonly RegionGateway[]>,
  regionSecret: {
    default: undefined,
    read: readText,
    value: "TEXT",
    what: "The secret that the gateways of all regions share, with at least 32 characters",
    secret: "all",
    check: {
      wanted: "at least 32 characters, e.g. what `openssl rand -hex 32` prints",
      is: (text) => text.length >= 32,
    },
  } as ServerSetting<string | undefined>,
  regionTimeout: {
    default: 75_000,
    read: readDuration,
    value: "DURATION",
    what: "How long the gateway of another region may take to start its response, and between two chunks of it",
    check: atLeast(1, "1ms or more"),
  } as ServerSetting<number>,
  trustProxy: {
    default: [],
    read: readAddresses,
    value: "ADDRESS",
    what: "Addresses of proxies in front of the gateway whose forwarding headers are trusted",
    many: true,
  } as ServerSetting<readonly string[]>,
  headTimeout: {
    default: 10_000,
    read: readDuration,
    value: "DURATION",
    what: "How long a client of the gateway may take to send the headers of a request",
    check: atLeast(1, "1ms or more"),
  } as ServerSetting<number>,
  bodyTimeout: {
    default: 30_000,
    read: readDuration,
    value: "DURATION",
    what: "How long a client of the gateway may pause while it sends a body or reads a response",
    check: atLeast(1, "1ms or more"),
  } as ServerSetting<number>,
  clientKeepAlive: {
    default: KEEP_ALIVE_TIMEOUT_MS,
    read: readDuration,
    value: "DURATION",
    what: "How long an idle connection of a client stays open; longer than a proxy in front of the gateway reuses one",
    check: atLeast(1, "1ms or more"),
  } as ServerSetting<number>,
  tunnelTimeout: {
    default: 600_000,
    read: readDuration,
    value: "DURATION",
    what: "How long a WebSocket through the gateway may be idle",
    check: atLeast(1, "1ms or more"),
  } as ServerSetting<number>,
  maxConnections: {
    default: 2_000,
    read: readCount,
    value: "COUNT",
    what: "The most open connections to the gateway; fewer if the process may not open as many files",
    check: atLeast(1, "1 or more"),
  } as ServerSetting<number>,
  maxConnectionsPerAddress: {
    default: 256,
    read: readCount,
    value: "COUNT",
    what: "The most open connections from one address or one IPv6 /64 network; trusted proxies are exempt",
    check: atLeast(1, "1 or more"),
  } as ServerSetting<number>,
  maxBufferedBytes: {
    default: 67_108_864,
    read: readCount,
    value: "BYTES",
    what: "The most bytes of request bodies, and the most bytes of responses, that the gateway holds in memory",
    check: atLeast(65_536, "65536 or more"),
  } as ServerSetting<number>,
  quotaKeys: {
    default: undefined,
    read: readCount,
    value: "COUNT",
    what: "The most live keys of one owner in the gateway",
    check: atLeast(1, "1 or more"),
  } as ServerSetting<number | undefined>,
  quotaBytes: {
    default: undefined,
    read: readCount,
    value: "BYTES",
    what: "The most bytes of stored responses of one owner",
    check: atLeast(1, "1 or more"),
  } as ServerSetting<number | undefined>,
  quotaTotalKeys: {
    default: 20_000_000,
    read: readCount,
    value: "COUNT",
    what: "The most live keys of all owners together",
    check: atLeast(1, "1 or more"),
  } as ServerSetting<number>,
  quotaTotalBytes: {
    default: 21_474_836_480,
    read: readCount,
    value: "BYTES",
    what: "The most bytes of stored responses of all owners together",
    check: atLeast(1, "1 or more"),
  } as ServerSetting<number>,
} as const;

function readUpstream(name: string, value: string): string {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (
    url === undefined ||
    !["http:", "https:"].includes(url.protocol) ||
    url.search !== "" ||
    url.hash !== ""
  )
    throw new ConfigError(name, redactUrl(value), 'the address of a service, e.g. "http://127.0.0.1:3000"');
  return value;
}

function readRegionGateways(setting: string, value: string): readonly RegionGateway[] {
  return splitList(value).map((entry) => {
    const [, name = "", address = ""] = /^([^=]*)=(.*)$/.exec(entry) ?? [];
    const url = URL.canParse(address) ? new URL(address) : undefined;
    // A path would change the address that was judged; a user and a password belong to a client.
    const isOrigin = url !== undefined && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`;
    if (isOrigin && REGION_NAME.test(name)) return { name, url: url.origin };
    throw new ConfigError(
      setting,
      redactUrl(entry),
      'names and addresses without a path, e.g. "us=https://gateway.us.example.com"',
    );
  });
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
