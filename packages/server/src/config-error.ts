/** The error for a wrong setting: where it is set, its value, and what it must be. */
import { didYouMean } from "nevertwice/env";

/** Replaces the value of an unknown setting, which may be a secret. */
const UNKNOWN = Symbol("unknown");

/** A setting that is wrong. The message names the setting and its place. */
export class ConfigError extends Error {
  constructor(name: string, value: unknown, wanted: string, options?: ErrorOptions) {
    super(
      value === UNKNOWN
        ? `there is no setting ${name}.${wanted}`
        : `${name} is ${value === undefined ? "missing" : JSON.stringify(value)}; it must be ${wanted}.`,
      options,
    );
    this.name = "ConfigError";
  }
}

/** The error for a setting that does not exist. `where` is appended to its name, e.g. ` in nevertwice.toml`. */
export function unknownSettingError(name: string, where: string, known: readonly string[]): ConfigError {
  const choice = ` The settings are ${known.join(", ")}.`;
  return new ConfigError(name + where, UNKNOWN, didYouMean(name, known) + choice);
}
