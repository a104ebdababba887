/** The sealing keys: how they are given, checked and replaced. No error here contains anything that may be a key. */
import { createSecretKey, KeyObject } from "node:crypto";
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions, isBoolean } from "../core/option-checks.ts";

/** 32 random bytes: as bytes, as a secret `KeyObject`, or as text in hex, base64 or base64url. */
export type SealingKey = Uint8Array | KeyObject | string;

/** Options of `sealed`. */
export interface SealingOptions {
  /** The keys by id. Outcomes that were sealed with any of them can be opened. An id is 1 to 32 letters, digits, `-` and `_`. */
  readonly keys: Readonly<Record<string, SealingKey>>;
  /** The id of the key that seals new outcomes. */
  readonly current: string;
  /**
   * Whether outcomes that were stored before sealing was switched on are replayed.
   * @default false
   */
  readonly acceptUnsealed?: boolean | undefined;
}

/** Checked options. */
export interface Keyring {
  readonly keys: ReadonlyMap<string, KeyObject>;
  readonly current: { readonly id: string; readonly key: KeyObject };
  readonly acceptUnsealed: boolean;
}

const KEY_BYTES = 32;
/** Shorter than any key as text, so that a key that was given as an id by mistake is refused before it is printed. */
export const MAX_ID_LENGTH = 32;

const ID = new RegExp(`^[A-Za-z0-9_-]{1,${MAX_ID_LENGTH}}$`);
const HEX = /^[0-9A-Fa-f]{64}$/;
const BASE64 = /^[A-Za-z0-9+/_-]{43}=?$/;

/**
 * Returns a function that gives the current keys. Options given as a function are read at every use, and checked again
 * whenever they are another object than before, so that keys can be rotated while the process runs.
 */
export function keyringFrom(given: SealingOptions | (() => SealingOptions)): () => Keyring {
  if (typeof given !== "function") {
    const keyring = checked(given);
    return () => keyring;
  }
  let options = given();
  let keyring = checked(options);
  return () => {
    try {
      const latest = given();
      if (latest !== options) {
        keyring = checked(latest);
        options = latest;
      }
      return keyring;
    } catch (cause) {
      throw unobtainable(cause);
    }
  };
}

function checked(options: SealingOptions): Keyring {
  checkOptions(options, { keys: () => {}, current: () => {}, acceptUnsealed: isBoolean });
  if (typeof options.keys !== "object" || options.keys === null)
    throw invalid(
      'keys is missing: give the sealing keys by id, as in { keys: { "2026": key }, current: "2026" }.',
    );
  const keys = new Map<string, KeyObject>();
  for (const [id, key] of Object.entries(options.keys)) {
    if (!ID.test(id))
      throw invalid(
        `an id in keys is malformed: it must be 1 to ${MAX_ID_LENGTH} letters, digits, "-" and "_".`,
      );
    keys.set(id, keyFrom(id, key));
  }
  const key = keys.get(options.current);
  if (key === undefined)
    throw invalid(
      `current must be the id of one of the keys; there are ${[...keys.keys()].join(", ") || "none"}.`,
    );
  return { keys, current: { id: options.current, key }, acceptUnsealed: options.acceptUnsealed ?? false };
}

/** A copy, so that changing the given bytes afterwards has no effect. */
function keyFrom(id: string, given: unknown): KeyObject {
  if (given instanceof KeyObject) {
    if (given.type === "secret" && given.symmetricKeySize === KEY_BYTES) return given;
  } else if (typeof given === "string") {
    if (HEX.test(given)) return createSecretKey(given, "hex");
    if (BASE64.test(given)) return createSecretKey(given, "base64");
  } else if (given instanceof Uint8Array && given.byteLength === KEY_BYTES) {
    return createSecretKey(given);
  }
  throw invalid(
    `keys.${id} is not a key: it must be ${KEY_BYTES} bytes, or text of them in hex or base64; randomBytes(${KEY_BYTES}) creates one.`,
  );
}

function invalid(message: string): NevertwiceError {
  return new NevertwiceError("options-invalid", message);
}

function unobtainable(cause: unknown): NevertwiceError {
  return new NevertwiceError(
    "sealing-failed",
    "the sealing keys cannot be read now; see the cause of this error.",
    {
      cause,
    },
  );
}
