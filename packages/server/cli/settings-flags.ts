/** The server's settings as flags, and a configuration read from them, the environment and a file. */
import { readConfig, type ServerConfig } from "../src/config.ts";
import type { Setting } from "../src/setting.ts";
import { flagOf, SETTINGS, type SettingName } from "../src/settings.ts";
import type { Call, Flag, Flags } from "./command.ts";
import { durationText } from "./terminal.ts";

export const CONFIG_FLAG: Flags = {
  config: {
    value: "FILE",
    what: "a TOML file with settings and the gateway's routes; flags and variables stand above it",
  },
};

/** The flags of these settings; all of them if none is named. */
export function settingsFlags(names = Object.keys(SETTINGS) as readonly SettingName[]): Flags {
  return Object.fromEntries(names.map((name) => [flagOf(name), flagFor(SETTINGS[name] as Setting<unknown>)]));
}

function flagFor({ what, value, many, default: unset }: Setting<unknown>): Flag {
  const shown = shownDefault(unset, value);
  return {
    what,
    ...(value !== undefined && { value }),
    ...(many && { many }),
    // Said, and not handed over: the environment and the file come between a flag and its default.
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

/** Of the settings that the command has as flags; of the others, what the environment and the file say. */
export function configFrom(call: Call): ServerConfig {
  const flags = Object.fromEntries(
    (Object.keys(SETTINGS) as SettingName[]).map((name) => [name, call.given(flagOf(name))]),
  );
  return readConfig({ flags, env: process.env, file: call.text("config") });
}
