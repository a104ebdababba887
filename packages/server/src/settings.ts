/**
 * Every setting of the server: one row each, from which come its flag, its variable, its line in a configuration file,
 * its default and what `--print-config` shows. A flag stands above the environment, and that above the file.
 */
import { isIP } from "node:net";
import { SERVER_NAMESPACE } from "./access.ts";
import { ConfigError } from "./config-error.ts";
import { GATEWAY_SETTINGS } from "./gateway-settings.ts";
import { type Address, atLeast, duration, plain, readAddress, type Setting, splitList } from "./setting.ts";

const isGiven = { wanted: "the URL of a store", is: (url: string) => url.trim() !== "" };
const LOG_LEVELS = ["silent", "error", "warn", "info", "debug"] as const;

/** How long an action on a hold may take: its key has to answer for longer. */
const HOLD_ACTION_MS = 5_000;
const MIN_TOKEN_LENGTH = 32;

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
  ...GATEWAY_SETTINGS,
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

function readLogLevel(name: string, value: string): (typeof LOG_LEVELS)[number] {
  const level = LOG_LEVELS.find((candidate) => candidate === value);
  if (level === undefined) throw new ConfigError(name, value, `one of ${LOG_LEVELS.join(", ")}`);
  return level;
}
