/**
 * x402, version 2, with its extension `payment-identifier`: the key is the id inside the payment, which is base64 JSON in
 * a header. The layer reads the payment before it is verified. Therefore a response belongs to that exact payment, and
 * another payment with the same id is a conflict.
 */
import { fromBase64, sha256 } from "#platform";
import { NevertwiceError } from "../../core/errors.ts";
import type { KeyFinder, KeyReading, Profile, ProfileMeaning } from "../profile.ts";
import { objectSchema } from "./flat-body.ts";

const EXTENSION = "payment-identifier";

/** Longer than the largest header that servers accept. A longer value is not decoded. */
const MAX_PAYMENT_LENGTH = 65_536;

const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/;

const PAYMENT_IDENTIFIER: KeyFinder = {
  carrier: (header) => `the id of ${EXTENSION} in the header ${header}`,
  read(source, { header }) {
    const carried = source.header(header.toLowerCase());
    // A request without a payment goes to the handler, which asks for one.
    return carried === undefined ? "exempt" : readPayment(carried, header);
  },
  refusals: [],
  parameters: (header, key = {}, isRequired = false) => [
    {
      name: header,
      required: false,
      schema: {
        type: "string",
        maxLength: MAX_PAYMENT_LENGTH,
        contentEncoding: "base64",
        contentMediaType: "application/json",
        contentSchema: nested(["extensions", EXTENSION, "info", "id"], key, isRequired),
      },
    },
  ],
};

function readPayment(carried: string, header: string): KeyReading {
  const payment = decodePayment(carried.trim());
  if (payment === undefined) return invalid(`the header ${header} is not base64 of a JSON object.`);
  const id = readMember(readMember(readMember(readMember(payment, "extensions"), EXTENSION), "info"), "id");
  if (id === undefined) return undefined;
  if (typeof id === "string" && id !== "") return { key: id };
  return invalid(`the id of ${EXTENSION} must be a non-empty string.`);
}

function invalid(problem: string): KeyReading {
  return { refused: new NevertwiceError("key-invalid", problem) };
}

function decodePayment(text: string): object | undefined {
  if (text.length > MAX_PAYMENT_LENGTH || !BASE64.test(text)) return undefined;
  try {
    const json = new TextDecoder("utf-8", { fatal: true }).decode(fromBase64(text));
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Own members only, nothing inherited. */
function readMember(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Record<string, unknown>)[name];
}

function nested([name = "", ...further]: readonly string[], schema: object, isRequired: boolean): object {
  const member = further.length === 0 ? schema : nested(further, schema, isRequired);
  return objectSchema({ [name]: member }, isRequired ? [] : [name]);
}

const MEANING: ProfileMeaning = {
  of: (meaning, source, header) => [
    ...meaning,
    "payment",
    sha256(source.header(header.toLowerCase())?.trim() ?? "", "base64"),
  ],
  adds: ["the payment itself, to the byte"],
  leavesOut: [],
};

export const X402: Profile = {
  name: "x402",
  options: {
    // A GET can cost money here, so it is protected too.
    methods: ["GET", "POST", "PUT", "PATCH", "DELETE"],
    header: "PAYMENT-SIGNATURE",
    maxKeyLength: 128,
    keyPattern: /^[A-Za-z0-9_-]{16,128}$/,
    // A response of 402 means that no payment was made.
    keep: { 402: "release" },
    replayHeaders: ["PAYMENT-RESPONSE"],
  },
  problems: { status: { conflict: 409 } },
  operation: "x402",
  key: PAYMENT_IDENTIFIER,
  meaning: MEANING,
};
