/** Every environment variable, its default, and how it is read. */
import { durationMs, formatDuration } from "../core/duration.ts";
import { GUARD_DEFAULTS } from "../core/engine.ts";
import { checkedPart } from "../core/identity.ts";
import { oneOf } from "../core/option-checks.ts";
import { POLICY_CHECKS, POLICY_DEFAULTS, type Policy, type PolicyOptions } from "../core/policy.ts";
import { readSwitch } from "../core/switch.ts";

/** `process.env`, or an object of the same form, for example read from a file. */
export type Environment = Readonly<Record<string, string | undefined>>;

interface Variable {
  /** The default, as an operator would write it. */
  readonly default: string;
  /** What it does, in the words of docs/options.md. */
  readonly what: string;
}

export const VARIABLES = {
  NEVERTWICE_ENABLED: { default: "true", what: "Switches the guard on or off" },
  NEVERTWICE_STORE_URL: { default: "memory:", what: "URL of the store that keeps the records" },
  NEVERTWICE_LEASE: {
    default: formatDuration(POLICY_DEFAULTS.leaseMs),
    what: "How long a claim holds if its owner does not renew it",
  },
  NEVERTWICE_RETENTION: {
    default: formatDuration(POLICY_DEFAULTS.retentionMs),
    what: "How long a stored outcome is replayed",
  },
  NEVERTWICE_MARK_RETENTION: {
    default: formatDuration(POLICY_DEFAULTS.markRetentionMs),
    what: "How long a mark counts as done",
  },
  NEVERTWICE_ON_UNAVAILABLE: {
    default: POLICY_DEFAULTS.onUnavailable,
    what: "What a call does while the store cannot be reached",
  },
  NEVERTWICE_NAMESPACE: {
    default: GUARD_DEFAULTS.namespace,
    what: "The application that the keys belong to",
  },
  NEVERTWICE_ALLOW_LOCAL: { default: "false", what: "Allows a local store in production" },
} as const satisfies Readonly<Record<string, Variable>>;

export type VariableName = keyof typeof VARIABLES;

/** The durations that the environment sets, by the name of their option. */
const WINDOWS = {
  leaseMs: "NEVERTWICE_LEASE",
  retentionMs: "NEVERTWICE_RETENTION",
  markRetentionMs: "NEVERTWICE_MARK_RETENTION",
} as const satisfies { readonly [Name in keyof Policy]?: VariableName };

type WindowOption = keyof typeof WINDOWS;

/** The durations that the environment sets, in milliseconds. */
export type EnvWindows = { readonly [Name in WindowOption]: number };

/** Options from the application's code, for variables that are not set. */
export type CodeOptions = Pick<PolicyOptions, WindowOption | "onUnavailable"> & {
  readonly namespace?: string | undefined;
};

/** The options of a guard. The environment overrides the code, and the code overrides the defaults. */
export function guardOptionsFrom(env: Environment, code: CodeOptions) {
  return {
    ...windowsFrom(env, code),
    onUnavailable: readVariable(env, "NEVERTWICE_ON_UNAVAILABLE", readOnUnavailable, code.onUnavailable),
    namespace: readVariable(env, "NEVERTWICE_NAMESPACE", readPart, code.namespace),
  };
}

export function windowsFrom(env: Environment, code: Pick<PolicyOptions, WindowOption>): EnvWindows {
  const window = (option: WindowOption) =>
    readVariable(env, WINDOWS[option], readWindow(option), code[option]);
  return {
    leaseMs: window("leaseMs"),
    retentionMs: window("retentionMs"),
    markRetentionMs: window("markRetentionMs"),
  };
}

export function isOn(env: Environment, name: "NEVERTWICE_ENABLED"): boolean {
  return readVariable(env, name, readSwitch);
}

export function storeUrlIn(env: Environment): string {
  return readVariable(env, "NEVERTWICE_STORE_URL", (_, text) => text);
}

/** The value without white space around it, since files and secrets often end with a line break. An empty value counts as not set. */
export function given(env: Environment, name: string): string | undefined {
  return env[name]?.trim() || undefined;
}

type VariableReader<T> = (name: string, text: string) => T;

function readVariable<T>(env: Environment, name: VariableName, read: VariableReader<T>, code?: T): T {
  const text = given(env, name);
  if (text === undefined && code !== undefined) return code;
  return read(name, text ?? VARIABLES[name].default);
}

function readWindow(option: WindowOption): VariableReader<number> {
  return (name, text) => {
    const ms = durationMs(name, text);
    POLICY_CHECKS[option](`${name} in milliseconds`, ms);
    return ms;
  };
}

function readOnUnavailable(name: string, text: string): Policy["onUnavailable"] {
  oneOf("refuse", "proceed")(name, text);
  return text as Policy["onUnavailable"];
}

function readPart(name: string, text: string): string {
  return checkedPart(text, name, "options-invalid");
}
