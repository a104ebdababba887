/** Reads the configuration: flags override the environment, which overrides a file. Errors name the place of the setting. */
import { readFileSync } from "node:fs";
import { checkVariables } from "nevertwice/env";
import { parse } from "smol-toml";
import { ConfigError, unknownSettingError } from "./config-error.ts";
import { type GatewayRule, readRules } from "./gateway/gateway-rules.ts";
import { redactUrl } from "./redacted-url.ts";
import type { ServerSetting } from "./server-setting.ts";
import {
  flagName,
  SETTINGS,
  type ServerSettings,
  type SettingName,
  tomlName,
  VARIABLE_PREFIX,
  variableName,
} from "./server-settings.ts";

export { redactUrl as withoutPassword } from "./redacted-url.ts";

/** The settings of a server. */
export interface ServerConfig extends ServerSettings {
  /** The rules of the gateway; the first that matches a request applies. Only a file can set them. */
  readonly routes: readonly GatewayRule[];
}

export interface ConfigSources {
  readonly flags?: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** The path of a TOML file. */
  readonly file?: string | undefined;
}

const NAMES = Object.keys(SETTINGS) as SettingName[];
const VARIABLES = NAMES.map((name) => variableName(name).slice(VARIABLE_PREFIX.length));

/**
 * Reads the settings from flags, environment and file, each over the next.
 * @throws ConfigError with the name and the place of a wrong setting
 */
export function readConfig({ flags = {}, env = {}, file }: ConfigSources = {}): ServerConfig {
  checkVariables(env, VARIABLE_PREFIX, VARIABLES);
  const lines = file === undefined ? {} : readFile(file);
  const settings = Object.fromEntries(
    NAMES.map((name) => [name, readSetting(name, { flags, env, lines, file })]),
  ) as unknown as ServerSettings;
  checkTogether(settings);
  return { ...settings, routes: readRules(file ?? "the file", lines.routes) };
}

/** Fills the defaults into settings that are given in code, and checks them. */
export function configOf(given: Partial<ServerConfig>): ServerConfig {
  const unknown = Object.keys(given).find((name) => name !== "routes" && !Object.hasOwn(SETTINGS, name));
  if (unknown !== undefined) throw unknownSettingError(unknown, "", [...NAMES, "routes"]);
  for (const name of NAMES) checkSetting(name, findSetting(name), given[name]);
  const config = {
    ...(Object.fromEntries(NAMES.map((name) => [name, SETTINGS[name].default])) as unknown as ServerSettings),
    routes: [],
    ...given,
  };
  checkTogether(config);
  return config;
}

/** The configuration with the names of a configuration file, and without secrets. */
export function printedConfig(config: ServerConfig): Readonly<Record<string, unknown>> {
  const shown = NAMES.map((name) => [tomlName(name), shownValue(findSetting(name), config[name])]);
  return { ...Object.fromEntries(shown), routes: config.routes };
}

function shownValue({ secret, value: kind }: ServerSetting<unknown>, value: unknown): unknown {
  if (value === undefined) return null;
  if (kind === "DURATION") return `${value}ms`;
  if (secret === "all") return "(hidden)";
  if (secret === "password" && typeof value === "string") return redactUrl(value);
  if (typeof value === "object" && value !== null && "port" in value) {
    const { host, port } = value as { readonly host: string; readonly port: number };
    return `${host.includes(":") ? `[${host}]` : host}:${port}`;
  }
  return value;
}

interface SettingSources {
  readonly flags: NonNullable<ConfigSources["flags"]>;
  readonly env: NonNullable<ConfigSources["env"]>;
  readonly lines: Readonly<Record<string, unknown>>;
  readonly file: string | undefined;
}

function readSetting(name: SettingName, { flags, env, lines, file }: SettingSources): unknown {
  const setting = findSetting(name);
  const flag = flags[name];
  if (flag !== undefined) return parseSetting(`--${flagName(name)}`, setting, flag);
  const variable = env[variableName(name)]?.trim();
  if (variable) return parseSetting(variableName(name), setting, variable);
  const line = lines[tomlName(name)];
  if (line === undefined) return setting.default;
  const where = `${tomlName(name)} in ${file}`;
  const isText = (one: unknown): one is string => typeof one === "string";
  if (isText(line) || (setting.many && Array.isArray(line) && line.every(isText)))
    return parseSetting(where, setting, line);
  const isCount = setting.value === "COUNT" || setting.value === "BYTES";
  if (isCount && Number.isSafeInteger(line)) return checkSetting(where, setting, line);
  throw new ConfigError(
    where,
    setting.secret ? "(hidden)" : line,
    isCount ? "a whole number" : "text in quotes",
  );
}

function parseSetting(
  where: string,
  setting: ServerSetting<unknown>,
  text: string | readonly string[],
): unknown {
  const { read, many } = setting;
  const value = typeof text === "string" ? read(where, text) : text.map((one) => read(where, one));
  return checkSetting(where, setting, many && Array.isArray(value) ? value.flat() : value);
}

function checkSetting(where: string, setting: ServerSetting<unknown>, value: unknown): unknown {
  const { check } = setting;
  if (check === undefined || value === undefined || check.is(value as NonNullable<unknown>)) return value;
  throw new ConfigError(where, shownValue(setting, value), check.wanted);
}

function findSetting(name: SettingName): ServerSetting<unknown> {
  return SETTINGS[name] as unknown as ServerSetting<unknown>;
}

function readFile(file: string): Readonly<Record<string, unknown>> {
  let lines: Readonly<Record<string, unknown>>;
  try {
    lines = parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw unreadable(file, error as Error);
  }
  const known = [...NAMES.map(tomlName), "routes"];
  const unknown = Object.keys(lines).find((line) => !known.includes(line));
  if (unknown !== undefined) throw unknownSettingError(unknown, ` in ${file}`, known);
  return lines;
}

function unreadable(file: string, cause: Error): ConfigError {
  const [reason] = cause.message.split("\n");
  return new ConfigError("--config", file, `a TOML file that can be read (${reason})`, { cause });
}

function checkTogether({ tlsCert, tlsKey }: ServerSettings): void {
  if ((tlsCert === undefined) !== (tlsKey === undefined))
    throw new ConfigError("tls-cert", tlsCert, "given together with tls-key, or not at all");
}
