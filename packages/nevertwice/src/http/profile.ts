/** A profile: the rules of one specification or service, which apply where the options say nothing. */
import { type ErrorCode, NevertwiceError } from "../core/errors.ts";
import type { HeaderLine, HttpReply } from "./http-message.ts";
import type { BareKeys } from "./key-header.ts";
import type { HttpOptions } from "./options.ts";
import type { ProblemStyle } from "./problem.ts";
import type { ProfileName } from "./profile-names.ts";

/** The part of a request that a profile sees. */
export interface RequestHead {
  readonly method: string;
  readonly target: string;
  header(name: string): string | undefined;
}

export interface KeyRefusal {
  readonly refused: NevertwiceError;
  /** The status, if it differs from that of the code. */
  readonly status?: number;
}

export type KeyReading =
  | { readonly key: string }
  | KeyRefusal
  /** The request needs no key, even if keys are required. */
  | "exempt"
  | undefined;

/** The context in which a profile judges a key. */
export interface KeyContext {
  /** The header that carries the key. */
  readonly header: string;
  readonly nowMs: number;
  readonly retentionMs: number;
}

/** A header that carries the key or accompanies it. */
export interface KeyParameter {
  readonly name: string;
  readonly required: boolean;
  /** The JSON Schema of its value. */
  readonly schema: object;
}

/** How a profile reads its key, if the key is not simply the value of a header or of a member of the body. */
export interface KeyFinder {
  /** Describes for people what carries the key. */
  carrier(header: string): string;
  read(source: RequestHead, context: KeyContext): KeyReading;
  /** The refusal of a request with a key on a method that `methods` does not name. Without it, the key is ignored. */
  onOtherMethod?(source: RequestHead, context: KeyContext): KeyRefusal | undefined;
  /** Refusals in addition to those that follow from the options. */
  readonly refusals: readonly { readonly code: ErrorCode; readonly status: number }[];
  /** The headers that carry the key. `key` is the JSON Schema of a key. */
  parameters(header: string, key?: object, isRequired?: boolean): readonly KeyParameter[];
}

/** How a profile changes the meaning of a request, by which two requests are compared. */
export interface ProfileMeaning {
  of(meaning: readonly unknown[], source: RequestHead, header: string): readonly unknown[];
  /** What the profile compares in addition, and which members of the body it ignores: descriptions for people. */
  readonly adds: readonly string[];
  readonly leavesOut: readonly string[];
}

/** Headers that a profile adds to every response to a request with a key. */
export interface AddedHeaders {
  /** `answer`: the handler's response, a replay, or the code of a problem. `carried`: the value of the key's header. */
  lines(
    answer: "first" | "replay" | ErrorCode,
    header: string,
    carried: string | undefined,
  ): readonly HeaderLine[];
  /** Describes each header, with the JSON Schema of its value. */
  describe(header: string): Readonly<Record<string, { description: string; schema: object }>>;
}

export interface Profile {
  readonly name: ProfileName;
  readonly options: Partial<Omit<HttpOptions<never>, "scope" | "profile">>;
  readonly problems: ProblemStyle;
  /** One operation for all paths. The same key on another path is then a conflict instead of another key. */
  readonly operation?: string;
  /** The retention that the specification allows. */
  readonly retention?: { readonly leastMs: number; readonly mostMs?: number };
  /** How much longer a record is kept, because clocks differ. */
  readonly graceMs?: number;
  readonly key?: KeyFinder;
  /** Which characters a key without quotes may have. */
  readonly bareKeys?: BareKeys;
  readonly meaning?: ProfileMeaning;
  readonly added?: AddedHeaders;
  /** Changes a replay that has a body. */
  readonly replayed?: (reply: HttpReply) => HttpReply;
}

/** The headers that carry the key, the main one first. */
export function listKeyHeaders({ key }: Profile, header: string): readonly string[] {
  return key?.parameters(header).map(({ name }) => name) ?? [header];
}

/** Throws `options-invalid` for a retention that the profile does not allow. */
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
