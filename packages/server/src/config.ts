/** The configuration: flags above the environment above a file, each setting checked where it was set. */
import { readFileSync } from "node:fs";
import { parse } from "smol-toml";
import { ConfigError } from "./config-error.ts";
import { type GatewayRule, rulesIn } from "./gateway-rules.ts";
import type { Setting } from "./setting.ts";
import { flagOf, lineOf, SETTINGS, type SettingName, type Settings, variableOf } from "./settings.ts";
import { withoutPassword } from "./shown-url.ts";

export { withoutPassword } from "./shown-url.ts";

export interface ServerConfig extends Settings {
  /** Rules of the gateway, of which the first that fits a request holds. Only in a file. */
  readonly routes: readonly GatewayRule[];
}

export interface ConfigSources {
  readonly flags?: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** A TOML file. */
  readonly file?: string | undefined;
}

const NAMES = Object.keys(SETTINGS) as SettingName[];

export function readConfig({ flags = {}, env = {}, file }: ConfigSources = {}): ServerConfig {
  const lines = file === undefined ? {} : readFile(file);
  const settings = Object.fromEntries(
    NAMES.map((name) => [name, settingOf(name, { flags, env, lines, file })]),
  ) as unknown as Settings;
  checkTogether(settings);
  return { ...settings, routes: rulesIn(file ?? "the file", lines.routes) };
}

/** What is given in code, over the defaults. */
export function configOf(given: Partial<ServerConfig>): ServerConfig {
  const unknown = Object.keys(given).find((name) => name !== "routes" && !Object.hasOwn(SETTINGS, name));
  if (unknown !== undefined) throw new ConfigError(unknown, undefined, `one of ${NAMES.join(", ")}, routes`);
  for (const name of NAMES) checked(name, settingBy(name), given[name]);
  const config = {
    ...(Object.fromEntries(NAMES.map((name) => [name, SETTINGS[name].default])) as unknown as Settings),
    routes: [],
    ...given,
  };
  checkTogether(config);
  return config;
}

/** The configuration for people, as a file would say it, and without secrets. */
export function printedConfig(config: ServerConfig): Readonly<Record<string, unknown>> {
  const shown = NAMES.map((name) => [lineOf(name), shownValue(settingBy(name), config[name])]);
  return { ...Object.fromEntries(shown), routes: config.routes };
}

function shownValue({ secret, value: kind }: Setting<unknown>, value: unknown): unknown {
  if (value === undefined) return null;
  if (kind === "DURATION") return `${value}ms`;
  if (secret === "all") return "(hidden)";
  if (secret === "password" && typeof value === "string") return withoutPassword(value);
  if (typeof value === "object" && value !== null && "port" in value) {
    const { host, port } = value as { readonly host: string; readonly port: number };
    return `${host.includes(":") ? `[${host}]` : host}:${port}`;
  }
  return value;
}

interface Places {
  readonly flags: NonNullable<ConfigSources["flags"]>;
  readonly env: NonNullable<ConfigSources["env"]>;
  readonly lines: Readonly<Record<string, unknown>>;
  readonly file: string | undefined;
}

function settingOf(name: SettingName, { flags, env, lines, file }: Places): unknown {
  const setting = settingBy(name);
  const flag = flags[name];
  if (flag !== undefined) return readAt(`--${flagOf(name)}`, setting, flag);
  const variable = env[variableOf(name)]?.trim();
  if (variable) return readAt(variableOf(name), setting, variable);
  const line = lines[lineOf(name)];
  if (line === undefined) return setting.default;
  const where = `${lineOf(name)} in ${file}`;
  const isText = (one: unknown): one is string => typeof one === "string";
  if (isText(line) || (setting.many && Array.isArray(line) && line.every(isText)))
    return readAt(where, setting, line);
  const isCount = setting.value === "COUNT" || setting.value === "BYTES";
  if (isCount && Number.isSafeInteger(line)) return checked(where, setting, line);
  throw new ConfigError(
    where,
    setting.secret ? "(hidden)" : line,
    isCount ? "a whole number" : "text in quotes",
  );
}

function readAt(where: string, setting: Setting<unknown>, text: string | readonly string[]): unknown {
  const { read, many } = setting;
  const value = typeof text === "string" ? read(where, text) : text.map((one) => read(where, one));
  return checked(where, setting, many && Array.isArray(value) ? value.flat() : value);
}

function checked(where: string, setting: Setting<unknown>, value: unknown): unknown {
  const { check } = setting;
  if (check === undefined || value === undefined || check.is(value as NonNullable<unknown>)) return value;
  throw new ConfigError(where, shownValue(setting, value), check.wanted);
}

function settingBy(name: SettingName): Setting<unknown> {
  return SETTINGS[name] as unknown as Setting<unknown>;
}

function readFile(file: string): Readonly<Record<string, unknown>> {
  let lines: Readonly<Record<string, unknown>>;
  try {
    lines = parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw unreadable(file, error as Error);
  }
  const known = [...NAMES.map(lineOf), "routes"];
  const unknown = Object.keys(lines).find((line) => !known.includes(line));
  if (unknown !== undefined)
    throw new ConfigError(`${unknown} in ${file}`, lines[unknown], `one of ${known.join(", ")}`);
  return lines;
}

function unreadable(file: string, cause: Error): ConfigError {
  const [reason] = cause.message.split("\n");
  return new ConfigError("--config", file, `a TOML file that can be read (${reason})`, { cause });
}

function checkTogether({ tlsCert, tlsKey }: Settings): void {
  if ((tlsCert === undefined) !== (tlsKey === undefined))
    throw new ConfigError("tls-cert", tlsCert, "given together with tls-key, or not at all");
}
