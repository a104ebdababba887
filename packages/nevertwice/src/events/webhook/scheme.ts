/** Describes how a sender signs its webhooks. A new sender is a few lines of data, not code. */
import { NevertwiceError } from "../../core/errors.ts";
import { type Check, checkOptions, isText, oneOf, wholeFrom } from "../../core/option-checks.ts";
import { RETRY_HORIZONS_MS, type Sender } from "../senders.ts";

/** How a sender signs its webhooks. */
export interface WebhookScheme {
  /** The sender whose retries the retention must outlast. */
  readonly sender?: Sender | undefined;
  /** Where the sender's id for the event is: in a header, or in this member of the JSON body. */
  readonly id:
    | {
        /** The header that carries the id. */
        readonly header: string;
      }
    | {
        /** The member of the JSON body that carries the id. */
        readonly json: string;
      };
  /** The time of sending, in seconds of Unix time. Without it, a captured request stays valid forever. */
  readonly timestamp?: Field | undefined;
  /** Where the signature is, and how it is made. */
  readonly signature: SignatureField;
  /**
   * The signed content, built from `{id}`, `{timestamp}`, `{body}`, `{url}`, `{form}` (the names and values of a form, sorted
   * by name) and any text between them.
   */
  readonly signed: string;
  /**
   * How the secret is written.
   * @default text that is the key itself
   */
  readonly secret?: SecretForm | undefined;
  /** How far the timestamp may be from the current time. Default: 300,000. */
  readonly toleranceMs?: number | undefined;
}

/** A header, or the elements of a header that begin with `prefix`. */
export interface Field {
  /** The name of the header. */
  readonly header: string;
  /** What the element begins with, such as `"v1="`. */
  readonly prefix?: string | undefined;
  /** The text between the elements, if a header has several. */
  readonly separator?: string | undefined;
}

/** Where a signature is, and how it is made. */
export interface SignatureField extends Field {
  /** How the signature is computed. */
  readonly digest: "hmac-sha256" | "hmac-sha1" | "ed25519";
  /** How it is written. */
  readonly encoding: "hex" | "base64";
}

/** How a secret is written. Default: text that is the key itself. The prefix may be missing in the secret. */
export interface SecretForm {
  /** How the secret becomes the key. */
  readonly encoding: "text" | "hex" | "base64";
  /** What stands in front of the secret, such as `"whsec_"`. */
  readonly prefix?: string | undefined;
}

export const TOLERANCE_MS = 300_000;

const FIELD_CHECKS: Readonly<Record<string, Check>> = { header: isText, prefix: isText, separator: isText };

const SCHEME_CHECKS: Readonly<Record<string, Check>> = {
  sender: oneOf(...Object.keys(RETRY_HORIZONS_MS)),
  id: checkMembers({ header: isText, json: isText }),
  timestamp: checkMembers(FIELD_CHECKS, "header"),
  signature: checkMembers(
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
  secret: checkMembers({ encoding: oneOf("text", "hex", "base64"), prefix: isText }, "encoding"),
  toleranceMs: wholeFrom(0),
};

const SCHEME_CHECK = checkMembers(SCHEME_CHECKS, "id", "signature", "signed");

export type SignedPart =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "id" | "timestamp" | "body" | "url" | "form" };

/** Throws `options-invalid` if the description is invalid, or if it would leave the body unsigned. */
export function checkScheme(name: string, value: unknown): void {
  SCHEME_CHECK(name, value);
  const scheme = value as WebhookScheme;
  if ("header" in scheme.id === "json" in scheme.id)
    throw invalid(`${name}.id`, "must be { header } or { json }");
  const kinds = new Set(signedParts(scheme.signed).map(({ kind }) => kind));
  if (!kinds.has("body") && !kinds.has("form"))
    throw invalid(
      `${name}.signed`,
      "must contain {body} or {form}: otherwise the body is not signed and could be changed",
    );
  if (kinds.has("id") && !("header" in scheme.id))
    throw invalid(`${name}.signed`, "contains {id}, which needs an id in a header");
  // An unsigned timestamp proves nothing, and a signed one needs a header to read it from.
  if (kinds.has("timestamp") !== (scheme.timestamp !== undefined))
    throw invalid(`${name}.timestamp`, "is needed if signed contains {timestamp}, and only then");
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
          throw invalid(
            "scheme.signed",
            `contains {${text}}: use {id}, {timestamp}, {body}, {url} or {form}`,
          );
      }
    })
    .filter((part) => part.kind !== "text" || part.text !== "");
}

/** Checks the members of an option. Errors show the full name, such as `scheme.id`. */
function checkMembers(checks: Readonly<Record<string, Check>>, ...required: readonly string[]): Check {
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
