/** One setting of the server, and how the common kinds of values are read and checked. */
import { durationMs } from "nevertwice/env";
import { ConfigError } from "./config-error.ts";

export type Read<T> = (name: string, text: string) => T;

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

export const duration: Read<number> = (name, text) => durationMs(name, text);
export const plain: Read<string | undefined> = (_, value) => value;

export function splitList(value: string): readonly string[] {
  return value
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
}

export function atLeast(least: number, wanted: string): NonNullable<Setting<number>["check"]> {
  return { wanted, is: (ms) => Number.isSafeInteger(ms) && ms >= least };
}

export function readCount(name: string, value: string): number {
  if (/^\d{1,15}$/.test(value)) return Number(value);
  throw new ConfigError(name, value, "a whole number");
}

export function readAddress(name: string, value: string): Address {
  const parts = /^(?:\[([0-9a-fA-F:]+)\]|([^:[\]]*)):(\d{1,5})$/.exec(value);
  const port = Number(parts?.[3]);
  if (parts === null || port > 65_535)
    throw new ConfigError(name, value, 'an address with its port, e.g. "127.0.0.1:4747" or "[::1]:4747"');
  return { host: parts[1] ?? (parts[2] || "127.0.0.1"), port };
}
