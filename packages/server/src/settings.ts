/**
 * Every setting of the server: one row each, from which come its flag, its variable, its line in a configuration file,
 * its default and what `--print-config` shows. A flag stands above the environment, and that above the file.
 */
import { isIP } from "node:net";
import { durationMs } from "nevertwice/env";
import { SERVER_NAMESPACE } from "./access.ts";
import { ConfigError } from "./config-error.ts";
import { readScopeText, type ScopeRule } from "./gateway-rules.ts";
import { withoutPassword } from "./shown-url.ts";

type Read<T> = (name: string, text: string) => T;

export interface Setting<T> {
  readonly default: T;
  readonly read: Read<T>;
  /** What stands for the value in the usage: `URL`. Absent for a switch. */
  readonly value?: string;
  /** What it is, or what it does: no full stop. */
  readonly what: string;
  /** What it must be, wherever it was set. */
  readonly check?: { readonly wanted: string; is(value: NonNullable<T>): boolean };
  /** Shown as `(hidden)`, or without its password if it is a URL. */
  readonly secret?: "all" | "password";
  /** May be given several times. */
  readonly many?: true;
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

const isGiven = { wanted: "the URL of a store", is: (url: string) => url.trim() !== "" };
const LOG_LEVELS = ["silent", "error", "warn", "info", "debug"] as const;

/** How long an action on a hold may take: its key has to answer for longer. */
const HOLD_ACTION_MS = 5_000;
const MIN_TOKEN_LENGTH = 32;

const duration: Read<number> = (name, text) => durationMs(name, text);
const plain: Read<string | undefined> = (_, value) => value;

export const SETTINGS = {
  store: {
    default: "sqlite:./nevertwice.db",
    read: (_, value) => value,
    value: "URL",
    what: "URL of the store that keeps the records",
    secret: "password",
    check: isGiven,
  } as Setting<string>,
  holdsStore: {
    default: undefined,
    read: plain,
    value: "URL",
    what: "URL of the store that keeps holds, if it is another one",
    secret: "password",
    check: isGiven,
  } as Setting<string | undefined>,
  namespace: {
    default: "default",
    read: (_, value) => value,
    value: "NAME",
    what: "Namespace of keys that come without an access token",
    check: {
      wanted: `text of 1 to 255 bytes, and not ${SERVER_NAMESPACE}, which is the server's own`,
      is: (text) => text.trim() !== "" && Buffer.byteLength(text) <= 255 && text !== SERVER_NAMESPACE,
    },
  } as Setting<string>,
  listen: {
    default: { host: "127.0.0.1", port: 4747 },
    read: readAddress,
    value: "HOST:PORT",
    what: "Address of the HTTP API and the dashboard",
  } as Setting<Address>,
  allowHost: {
    default: [],
    read: (_, value) => splitList(value),
    value: "NAME",
    what: "Further names by which clients may call the server",
    many: true,
    check: {
      wanted: 'names or addresses without a scheme or a port, e.g. "nevertwice.example.com"',
      is: (names) => names.every((name) => isIP(name) !== 0 || /^[a-z0-9._-]+$/i.test(name)),
    },
  } as Setting<readonly string[]>,
  tlsCert: {
    default: undefined,
    read: plain,
    value: "FILE",
    what: "Certificate of the server, a PEM file",
  } as Setting<string | undefined>,
  tlsKey: {
    default: undefined,
    read: plain,
    value: "FILE",
    what: "Private key of the certificate, a PEM file",
  } as Setting<string | undefined>,
  accessToken: {
    default: undefined,
    read: plain,
    value: "TOKEN",
    what: "An access token with all roles, beside those that `access create` made",
    secret: "all",
    check: {
      wanted: `at least ${MIN_TOKEN_LENGTH} characters of visible ASCII, e.g. what \`openssl rand -hex 32\` prints`,
      is: (token) => token.length >= MIN_TOKEN_LENGTH && /^[!-~]+$/.test(token),
    },
  } as Setting<string | undefined>,
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
  lease: {
    default: 30_000,
    read: duration,
    value: "DURATION",
    what: "How long a claim holds if its owner does not renew it",
    check: atLeast(10, "10ms or more"),
  } as Setting<number>,
  retention: {
    default: 86_400_000,
    read: duration,
    value: "DURATION",
    what: "How long the outcome of a key is kept",
    check: atLeast(1, "1ms or more"),
  } as Setting<number>,
  holdsWindow: {
    default: 600_000,
    read: duration,
    value: "DURATION",
    what: "How long the answer to the key of a hold is kept",
    check: atLeast(HOLD_ACTION_MS + 1, "more than 5s, which an action may take"),
  } as Setting<number>,
  drain: {
    default: 30_000,
    read: duration,
    value: "DURATION",
    what: "How long the server waits for running work when it stops",
  } as Setting<number>,
  logLevel: {
    default: "info",
    read: readLogLevel,
    value: LOG_LEVELS.join("|"),
    what: "The least severe messages that are logged",
  } as Setting<(typeof LOG_LEVELS)[number]>,
} as const;

export type SettingName = keyof typeof SETTINGS;

export type Settings = { readonly [Name in SettingName]: (typeof SETTINGS)[Name]["default"] };

/** `holdsStore` is `--holds-store`, `NEVERTWICE_SERVER_HOLDS_STORE` and `holds_store`. */
export function flagOf(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

export function variableOf(name: string): string {
  return `NEVERTWICE_SERVER_${flagOf(name).replaceAll("-", "_").toUpperCase()}`;
}

export function lineOf(name: string): string {
  return flagOf(name).replaceAll("-", "_");
}

function splitList(value: string): readonly string[] {
  return value
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
}

function atLeast(least: number, wanted: string): NonNullable<Setting<number>["check"]> {
  return { wanted, is: (ms) => Number.isSafeInteger(ms) && ms >= least };
}

function readCount(name: string, value: string): number {
  if (/^\d{1,15}$/.test(value)) return Number(value);
  throw new ConfigError(name, value, "a whole number");
}

function readAddress(name: string, value: string): Address {
  const parts = /^(?:\[([0-9a-fA-F:]+)\]|([^:[\]]*)):(\d{1,5})$/.exec(value);
  const port = Number(parts?.[3]);
  if (parts === null || port > 65_535)
    throw new ConfigError(name, value, 'an address with its port, e.g. "127.0.0.1:4747" or "[::1]:4747"');
  return { host: parts[1] ?? (parts[2] || "127.0.0.1"), port };
}

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

function readLogLevel(name: string, value: string): (typeof LOG_LEVELS)[number] {
  const level = LOG_LEVELS.find((candidate) => candidate === value);
  if (level === undefined) throw new ConfigError(name, value, `one of ${LOG_LEVELS.join(", ")}`);
  return level;
}
