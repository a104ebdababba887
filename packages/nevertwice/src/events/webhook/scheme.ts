/** How a sender signs its webhooks, as a description: a new sender is a few lines of data, not code. */
import { NevertwiceError } from "../../core/errors.ts";
import { type Check, checkOptions, isText, oneOf, wholeFrom } from "../../core/policy.ts";
import { RETRY_HORIZONS_MS, type Sender } from "../senders.ts";

export interface WebhookScheme {
  /** Whose retries the memory has to outlast. */
  readonly sender?: Sender | undefined;
  /** Where the sender's name for the event is: in a header, or in this member of the JSON body. */
  readonly id: { readonly header: string } | { readonly json: string };
  /** When it was sent, in seconds of Unix time. Without it, a captured request is good for ever. */
  readonly timestamp?: Field | undefined;
  readonly signature: SignatureField;
  /**
   * What is signed: `{id}`, `{timestamp}`, `{body}`, `{url}`, `{form}` (the names and values of a form, sorted by name)
   * and any text between them.
   */
  readonly signed: string;
  readonly secret?: SecretForm | undefined;
  /** How far from now the timestamp may be; default 300,000. */
  readonly toleranceMs?: number | undefined;
}

/** A header, or those elements of it that begin with `prefix`. */
export interface Field {
  readonly header: string;
  readonly prefix?: string | undefined;
  /** What stands between the elements, where a header has several. */
  readonly separator?: string | undefined;
}

export interface SignatureField extends Field {
  readonly digest: "hmac-sha256" | "hmac-sha1" | "ed25519";
  readonly encoding: "hex" | "base64";
}

/** How a secret is written; default: as text that is the key itself. Its prefix may be left out. */
export interface SecretForm {
  readonly encoding: "text" | "hex" | "base64";
  readonly prefix?: string | undefined;
}

export const TOLERANCE_MS = 300_000;

const FIELD_CHECKS: Readonly<Record<string, Check>> = { header: isText, prefix: isText, separator: isText };

const SCHEME_CHECKS: Readonly<Record<string, Check>> = {
  sender: oneOf(...Object.keys(RETRY_HORIZONS_MS)),
  id: partOf({ header: isText, json: isText }),
  timestamp: partOf(FIELD_CHECKS, "header"),
  signature: partOf(
    {
      ...FIELD_CHECKS,
      digest: oneOf("hmac-sha256", "hmac-sha1", "ed25519"),
      encoding: oneOf("hex", "base64"),
    },
    "header",
    "digest",
    "encoding",
  ),
  signed: isText,
  secret: partOf({ encoding: oneOf("text", "hex", "base64"), prefix: isText }, "encoding"),
  toleranceMs: wholeFrom(0),
};

const SCHEME_CHECK = partOf(SCHEME_CHECKS, "id", "signature", "signed");

export type SignedPart =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "id" | "timestamp" | "body" | "url" | "form" };

/** Fails with `options-invalid` on a description that is wrong, or that would leave the body unsigned. */
export function checkScheme(name: string, value: unknown): void {
  SCHEME_CHECK(name, value);
  const scheme = value as WebhookScheme;
  if ("header" in scheme.id === "json" in scheme.id)
    throw invalid(`${name}.id`, "must be { header } or { json }");
  const kinds = new Set(signedParts(scheme.signed).map(({ kind }) => kind));
  if (!kinds.has("body") && !kinds.has("form"))
    throw invalid(`${name}.signed`, "must have {body} or {form} in it, or anybody could change the body");
  if (kinds.has("id") && !("header" in scheme.id))
    throw invalid(`${name}.signed`, "has {id} in it, which needs an id in a header");
  // A timestamp that is not signed proves nothing, and one that is signed has to come from somewhere.
  if (kinds.has("timestamp") !== (scheme.timestamp !== undefined))
    throw invalid(`${name}.timestamp`, "and {timestamp} in signed go together");
}

const PLACE = /\{(\w+)\}/;

export function signedParts(signed: string): readonly SignedPart[] {
  return signed
    .split(PLACE)
    .map((text, index): SignedPart => {
      if (index % 2 === 0) return { kind: "text", text };
      switch (text) {
        case "id":
        case "timestamp":
        case "body":
        case "url":
        case "form":
          return { kind: text };
        default:
          throw invalid("scheme.signed", `has {${text}} in it, which nothing stands for`);
      }
    })
    .filter((part) => part.kind !== "text" || part.text !== "");
}

/** A check of what is inside an option, with the whole name in what it says. */
function partOf(checks: Readonly<Record<string, Check>>, ...required: readonly string[]): Check {
  return (name, value) => {
    const named = Object.entries(checks).map(([inner, check]): [string, Check] => [
      inner,
      (_, given) => check(`${name}.${inner}`, given),
    ]);
    checkOptions(value as object, Object.fromEntries(named));
    for (const inner of required) {
      if ((value as Readonly<Record<string, unknown>>)[inner] === undefined)
        throw invalid(`${name}.${inner}`, "is missing");
    }
  };
}

function invalid(name: string, what: string): NevertwiceError {
  return new NevertwiceError("options-invalid", `${name} ${what}.`);
}
