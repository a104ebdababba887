/** The settings of the server as flags, and the configuration from flags, environment and file. */
import { readConfig, type ServerConfig } from "../src/config.ts";
import type { ServerSetting } from "../src/server-setting.ts";
import { flagName, SETTINGS, type SettingName } from "../src/server-settings.ts";
import type { CommandCall, Flag, Flags } from "./command.ts";
import { durationText } from "./terminal.ts";

export const CONFIG_FLAG: Flags = {
  config: {
    value: "FILE",
    what: "TOML file with settings and the routes of the gateway; flags and variables override it",
  },
};

/** The flags of these settings; default: of all settings. */
export function settingsFlags(names = Object.keys(SETTINGS) as readonly SettingName[]): Flags {
  return Object.fromEntries(
    names.map((name) => [flagName(name), flagFor(SETTINGS[name] as ServerSetting<unknown>)]),
  );
}

function flagFor({ what, value, many, default: unset }: ServerSetting<unknown>): Flag {
  const shown = shownDefault(unset, value);
  return {
    what,
    ...(value !== undefined && { value }),
    ...(many && { many }),
    // Only shown in the usage: the environment and the file come before the default.
    ...(shown !== undefined && { default: shown }),
  };
}

function shownDefault(unset: unknown, value: string | undefined): string | undefined {
  if (typeof unset === "number") return value === "DURATION" ? durationText(unset) : String(unset);
  if (typeof unset === "string") return unset;
  if (typeof unset !== "object" || unset === null || !("port" in unset)) return undefined;
  const { host, port } = unset as { readonly host: string; readonly port: number };
  return `${host}:${port}`;
}

/** Settings without a flag in this command come from the environment and the file only. */
export function configFrom(call: CommandCall): ServerConfig {
  const flags = Object.fromEntries(
    (Object.keys(SETTINGS) as SettingName[]).map((name) => [name, call.given(flagName(name))]),
  );
  return readConfig({ flags, env: process.env, file: call.text("config") });
}
