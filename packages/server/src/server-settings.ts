/**
 * Every setting of the server, one row each. The flag, the environment variable, the line of a configuration file, the
 * default and the output of `--print-config` come from this row. A flag overrides the environment, which overrides the
 * file.
 */
import { isIP } from "node:net";
import { windowsFromEnv } from "nevertwice/env";
import { ConfigError } from "./config-error.ts";
import { GATEWAY_SETTINGS } from "./gateway/gateway-settings.ts";
import { isReservedNamespace } from "./server-guard.ts";
import {
  atLeast,
  type ListenAddress,
  readAddress,
  readDuration,
  readText,
  type ServerSetting,
  splitList,
} from "./server-setting.ts";

/** The library's durations: what it reads from an environment that sets nothing. */
const LIBRARY_DEFAULTS = windowsFromEnv({});

const isGiven = { wanted: "the URL of a store", is: (url: string) => url.trim() !== "" };
const LOG_LEVELS = ["silent", "error", "warn", "info", "debug"] as const;

/** The longest time of an action on a hold. The answer to its key must be kept for longer. */
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
  } as ServerSetting<string>,
  holdsStore: {
    default: undefined,
    read: readText,
    value: "URL",
    what: "URL of the store that keeps holds, if it differs from `store`",
    secret: "password",
    check: isGiven,
  } as ServerSetting<string | undefined>,
  outboxStore: {
    default: undefined,
    read: readText,
    value: "URL",
    what: "URL of the database with the outbox, if it differs from `store`",
    secret: "password",
    check: isGiven,
  } as ServerSetting<string | undefined>,
  namespace: {
    default: "default",
    read: (_, value) => value,
    value: "NAME",
    what: "Namespace of callers without an access token",
    check: {
      wanted: "text of 1 to 255 bytes that does not begin with nevertwice:, which is reserved for the server",
      is: (text) => text.trim() !== "" && Buffer.byteLength(text) <= 255 && !isReservedNamespace(text),
    },
  } as ServerSetting<string>,
  listen: {
    default: { host: "127.0.0.1", port: 4747 },
    read: readAddress,
    value: "HOST:PORT",
    what: "Address of the HTTP API and the dashboard",
  } as ServerSetting<ListenAddress>,
  allowHost: {
    default: [],
    read: (_, value) => splitList(value),
    value: "NAME",
    what: "Additional host names by which clients may call the server",
    many: true,
    check: {
      wanted: 'names or addresses without a scheme or a port, e.g. "nevertwice.example.com"',
      is: (names) => names.every((name) => isIP(name) !== 0 || /^[a-z0-9._-]+$/i.test(name)),
    },
  } as ServerSetting<readonly string[]>,
  tlsCert: {
    default: undefined,
    read: readText,
    value: "FILE",
    what: "PEM file with the certificate of the server",
  } as ServerSetting<string | undefined>,
  tlsKey: {
    default: undefined,
    read: readText,
    value: "FILE",
    what: "PEM file with the private key of the certificate",
  } as ServerSetting<string | undefined>,
  accessToken: {
    default: undefined,
    read: readText,
    value: "TOKEN",
    what: "An access token with all roles, in addition to those of `access create`",
    secret: "all",
    check: {
      wanted: `at least ${MIN_TOKEN_LENGTH} characters of visible ASCII, e.g. what \`openssl rand -hex 32\` prints`,
      is: (token) => token.length >= MIN_TOKEN_LENGTH && /^[!-~]+$/.test(token),
    },
  } as ServerSetting<string | undefined>,
  ...GATEWAY_SETTINGS,
  lease: {
    default: LIBRARY_DEFAULTS.leaseMs,
    read: readDuration,
    value: "DURATION",
    what: "How long a claim is valid unless its owner renews it",
    check: atLeast(10, "10ms or more"),
  } as ServerSetting<number>,
  retention: {
    default: LIBRARY_DEFAULTS.retentionMs,
    read: readDuration,
    value: "DURATION",
    what: "How long the outcome of a key is stored",
    check: atLeast(1, "1ms or more"),
  } as ServerSetting<number>,
  holdsWindow: {
    default: 600_000,
    read: readDuration,
    value: "DURATION",
    what: "How long the answer to the key of a hold is stored",
    check: atLeast(HOLD_ACTION_MS + 1, "more than 5s, the longest time of an action"),
  } as ServerSetting<number>,
  drainDelay: {
    default: 0,
    read: readDuration,
    value: "DURATION",
    what: "How long the server that was told to stop still accepts connections, while `/readyz` answers 503",
    check: atLeast(0, "0s or more"),
  } as ServerSetting<number>,
  drain: {
    default: 30_000,
    read: readDuration,
    value: "DURATION",
    what: "How long the server waits for running work when it stops",
  } as ServerSetting<number>,
  logLevel: {
    default: "info",
    read: readLogLevel,
    value: LOG_LEVELS.join("|"),
    what: "The lowest severity that is logged",
  } as ServerSetting<(typeof LOG_LEVELS)[number]>,
} as const;

export type SettingName = keyof typeof SETTINGS;

export type ServerSettings = { readonly [Name in SettingName]: (typeof SETTINGS)[Name]["default"] };

/** The names of `holdsStore` are `--holds-store`, `NEVERTWICE_SERVER_HOLDS_STORE` and `holds_store`. */
export function flagName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

export const VARIABLE_PREFIX = "NEVERTWICE_SERVER_";

export function variableName(name: string): string {
  return `${VARIABLE_PREFIX}${flagName(name).replaceAll("-", "_").toUpperCase()}`;
}

export function tomlName(name: string): string {
  return flagName(name).replaceAll("-", "_");
}

function readLogLevel(name: string, value: string): (typeof LOG_LEVELS)[number] {
  const level = LOG_LEVELS.find((candidate) => candidate === value);
  if (level === undefined) throw new ConfigError(name, value, `one of ${LOG_LEVELS.join(", ")}`);
  return level;
}
