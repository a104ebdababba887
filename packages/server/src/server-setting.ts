/** The type of a server setting, and the readers and checks for common kinds of values. */
import { durationMs } from "nevertwice/env";
import { ConfigError } from "./config-error.ts";

export type SettingReader<T> = (name: string, text: string) => T;

export interface ServerSetting<T> {
  readonly default: T;
  readonly read: SettingReader<T>;
  /** The placeholder of the value in the usage: `URL`. */
  readonly value?: string;
  /** What the setting is or does, without a full stop. */
  readonly what: string;
  /** The condition for its value, and the text of the error message. */
  readonly check?: { readonly wanted: string; is(value: NonNullable<T>): boolean };
  /** `all`: shown as `(hidden)`. `password`: a URL, shown without its password. */
  readonly secret?: "all" | "password";
  /** May be given several times. */
  readonly many?: true;
}

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

export const readDuration: SettingReader<number> = (name, text) => durationMs(name, text);
export const readText: SettingReader<string | undefined> = (_, value) => value;

export function splitList(value: string): readonly string[] {
  return value
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
}

export function atLeast(least: number, wanted: string): NonNullable<ServerSetting<number>["check"]> {
  return { wanted, is: (ms) => Number.isSafeInteger(ms) && ms >= least };
}

export function readCount(name: string, value: string): number {
  if (/^\d{1,15}$/.test(value)) return Number(value);
  throw new ConfigError(name, value, "a whole number");
}

export function readAddress(name: string, value: string): ListenAddress {
  const parts = /^(?:\[([0-9a-fA-F:]+)\]|([^:[\]]*)):(\d{1,5})$/.exec(value);
  const port = Number(parts?.[3]);
  if (parts === null || port > 65_535)
    throw new ConfigError(name, value, 'an address with its port, e.g. "127.0.0.1:4747" or "[::1]:4747"');
  return { host: parts[1] ?? (parts[2] || "127.0.0.1"), port };
}
