/** What an operator can set in the environment: every variable, its default, and how it is read. */
import { durationMs } from "../core/duration.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { oneOf, POLICY_CHECKS, type Policy, type PolicyOptions } from "../core/policy.ts";

/** `process.env`, or what is read from a file of the same kind. */
export type Environment = Readonly<Record<string, string | undefined>>;

interface Variable {
  /** As the operator would write it. */
  readonly default: string;
  /** The question that it answers, as docs/options.md asks it. */
  readonly what: string;
}

export const VARIABLES = {
  NEVERTWICE_ENABLED: { default: "true", what: "Is anything guarded?" },
  NEVERTWICE_STORE_URL: { default: "memory:", what: "Where do the records live?" },
  NEVERTWICE_LEASE: { default: "30s", what: "How long does a claim hold if its owner goes silent?" },
  NEVERTWICE_RETENTION: { default: "24h", what: "How long does an outcome answer for its key?" },
  NEVERTWICE_MARK_RETENTION: { default: "60s", what: "How long does a mark count?" },
  NEVERTWICE_ON_UNAVAILABLE: { default: "refuse", what: "What if the store cannot be reached?" },
  NEVERTWICE_NAMESPACE: { default: "default", what: "Which application do the keys belong to?" },
  NEVERTWICE_ALLOW_LOCAL: { default: "false", what: "May production run on a local store?" },
} as const satisfies Readonly<Record<string, Variable>>;

export type VariableName = keyof typeof VARIABLES;

/** The windows that the environment sets, and which of them is which option. */
const WINDOWS = {
  leaseMs: "NEVERTWICE_LEASE",
  retentionMs: "NEVERTWICE_RETENTION",
  markRetentionMs: "NEVERTWICE_MARK_RETENTION",
} as const satisfies { readonly [Name in keyof Policy]?: VariableName };

type Window = keyof typeof WINDOWS;

export type EnvWindows = { readonly [Name in Window]: number };

/** What the application's own code says, where the environment says nothing. */
export type CodeOptions = Pick<PolicyOptions, Window | "onUnavailable"> & {
  readonly namespace?: string | undefined;
};

/** Options of a guard. The environment stands above the code, and the code above the defaults. */
export function guardOptionsFrom(env: Environment, code: CodeOptions) {
  return {
    ...windowsFrom(env, code),
    onUnavailable: settingOf(env, "NEVERTWICE_ON_UNAVAILABLE", readOnUnavailable, code.onUnavailable),
    namespace: settingOf(env, "NEVERTWICE_NAMESPACE", readPart, code.namespace),
  };
}

export function windowsFrom(env: Environment, code: Pick<PolicyOptions, Window>): EnvWindows {
  const window = (option: Window) => settingOf(env, WINDOWS[option], readWindow(option), code[option]);
  return {
    leaseMs: window("leaseMs"),
    retentionMs: window("retentionMs"),
    markRetentionMs: window("markRetentionMs"),
  };
}

export function isOn(env: Environment, name: "NEVERTWICE_ENABLED" | "NEVERTWICE_ALLOW_LOCAL"): boolean {
  return settingOf(env, name, readSwitch);
}

export function storeUrlIn(env: Environment): string {
  return settingOf(env, "NEVERTWICE_STORE_URL", (_, text) => text);
}

/** What is written there, without white space around it, which files and secrets often end with. Empty is not given. */
export function given(env: Environment, name: string): string | undefined {
  return env[name]?.trim() || undefined;
}

type Read<T> = (name: string, text: string) => T;

function settingOf<T>(env: Environment, name: VariableName, read: Read<T>, code?: T): T {
  const text = given(env, name);
  if (text === undefined && code !== undefined) return code;
  return read(name, text ?? VARIABLES[name].default);
}

const SWITCHES = new Map([
  ...["true", "1", "on", "yes"].map((word) => [word, true] as const),
  ...["false", "0", "off", "no"].map((word) => [word, false] as const),
]);

function readSwitch(name: string, text: string): boolean {
  const position = SWITCHES.get(text.toLowerCase());
  if (position !== undefined) return position;
  throw new NevertwiceError(
    "options-invalid",
    `${name} is ${JSON.stringify(text)}; it must be one of ${[...SWITCHES.keys()].join(", ")}.`,
  );
}

function readWindow(option: Window): Read<number> {
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
