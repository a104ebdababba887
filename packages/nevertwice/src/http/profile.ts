/** What a profile is: one source's answers to what the sources disagree about, where the options are silent. */
import { type ErrorCode, NevertwiceError } from "../core/errors.ts";
import type { HeaderLine, Reply } from "./exchange.ts";
import type { HttpOptions } from "./options.ts";
import type { ProblemStyle } from "./problem.ts";
import type { ProfileName } from "./profile-names.ts";

/** What a profile sees of a request. */
export interface KeySource {
  readonly method: string;
  readonly target: string;
  header(name: string): string | undefined;
}

export interface Refusal {
  readonly refused: NevertwiceError;
  /** Where it is not the code's own. */
  readonly status?: number;
}

export type KeyReading =
  | { readonly key: string }
  | Refusal
  /** A request that keys are not about: it needs none, even where they are required. */
  | "exempt"
  | undefined;

/** What a key is judged by. */
export interface KeyContext {
  /** The header that carries it. */
  readonly header: string;
  readonly nowMs: number;
  readonly retentionMs: number;
}

/** A header that carries a key, or goes with one. */
export interface KeyParameter {
  readonly name: string;
  readonly required: boolean;
  /** The JSON Schema of its value. */
  readonly schema: object;
}

/** Where a profile finds its key, if not as the value of one header or one member of the body. */
export interface KeyFinder {
  /** What carries the key, in words. */
  carrier(header: string): string;
  read(source: KeySource, context: KeyContext): KeyReading;
  /** What a request with a key is told on a method that keys do not count on. Without it, the key is ignored there. */
  elsewhere?(source: KeySource, context: KeyContext): Refusal | undefined;
  /** Refusals that the options alone would not lead to. */
  readonly refusals: readonly { readonly code: ErrorCode; readonly status: number }[];
  /** The headers that carry it, given the JSON Schema of a key and whether one is required. */
  parameters(header: string, key?: object, isRequired?: boolean): readonly KeyParameter[];
}

/** What a request means to a profile, from what it means to us. */
export interface ProfileMeaning {
  of(meaning: readonly unknown[], source: KeySource, header: string): readonly unknown[];
  /** What counts on top of ours, and what of the body does not count: for people to read. */
  readonly adds: readonly string[];
  readonly leavesOut: readonly string[];
}

/** Headers on top of every answer to a request with a key. */
export interface AddedHeaders {
  /** `answer` is the handler's own, a replay, or the code of a problem; `carried` the value of the key's header. */
  lines(
    answer: "first" | "replay" | ErrorCode,
    header: string,
    carried: string | undefined,
  ): readonly HeaderLine[];
  /** What they are, each with the JSON Schema of its value. */
  describe(header: string): Readonly<Record<string, { description: string; schema: object }>>;
}

export interface Profile {
  readonly name: ProfileName;
  readonly options: Partial<Omit<HttpOptions<never>, "scope" | "profile">>;
  readonly problems: ProblemStyle;
  /** One operation for all paths, so that a key on another path is a conflict and not another key. */
  readonly operation?: string;
  /** The retention that its source allows. */
  readonly retention?: { readonly leastMs: number; readonly mostMs?: number };
  /** How much longer than that a record is kept, for clocks that differ. */
  readonly graceMs?: number;
  readonly key?: KeyFinder;
  readonly meaning?: ProfileMeaning;
  readonly added?: AddedHeaders;
  /** What a replay with a body says more than the first answer did. */
  readonly replayed?: (reply: Reply) => Reply;
}

/** The headers that carry the key, the key's own first. */
export function carriersOf({ key }: Profile, header: string): readonly string[] {
  return key?.parameters(header).map(({ name }) => name) ?? [header];
}

/** Refuses a retention that would make the profile's name untrue. */
export function checkRetention({ name, retention }: Profile, retentionMs: number): void {
  if (retention === undefined) return;
  const { leastMs, mostMs = Number.POSITIVE_INFINITY } = retention;
  if (retentionMs >= leastMs && retentionMs <= mostMs) return;
  const limit = retentionMs < leastMs ? `at least ${leastMs}` : `at most ${mostMs}`;
  throw new NevertwiceError(
    "options-invalid",
    `retentionMs is ${retentionMs}; the profile ${name} needs ${limit}.`,
  );
}
