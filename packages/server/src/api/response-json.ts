/** A stored HTTP response as the JSON of the HTTP API, with the coding of its body removed, so that people can read it. */
import { brotliDecompressSync, gunzipSync, inflateSync } from "node:zlib";
import type { Outcome } from "nevertwice";
import { storedResponse } from "nevertwice/http";
import type { ResponseJson } from "./api-json.ts";
import type { JsonSchema } from "./route.ts";

/** A small body can expand to a very large one. */
const MAX_DECODED_BYTES = 1_048_576;

export const RESPONSE_SCHEMA: JsonSchema = {
  type: "object",
  description: "If the outcome has the form of a stored HTTP response: the response. Only for operators.",
  required: ["status", "headers", "body"],
  properties: {
    status: { type: "integer" },
    headers: {
      type: "array",
      description: "Names and values, in order. Names are in lower case.",
      items: { type: "array", items: { type: "string" }, minItems: 2, maxItems: 2 },
    },
    body: {
      type: ["object", "null"],
      description: "null if the body was not stored.",
      required: ["bytes"],
      properties: {
        bytes: { type: "integer", description: "Its size as it is stored." },
        text: {
          type: "string",
          description: "Without its content coding; absent if the bytes are not UTF-8 text.",
        },
      },
      additionalProperties: false,
    },
  },
  additionalProperties: false,
};

/** Undefined if the outcome is not a stored response. */
export function responseJson(outcome: Outcome | undefined): ResponseJson | undefined {
  const response = outcome?.kind === "value" ? storedResponse(outcome.value) : undefined;
  if (response === undefined) return undefined;
  const { status, headers, body } = response;
  const coding = headers.find(([name]) => name === "content-encoding")?.[1];
  return { status, headers, body: body === undefined ? null : bodyJson(body, coding) };
}

function bodyJson(body: string | Uint8Array, coding: string | undefined): NonNullable<ResponseJson["body"]> {
  if (typeof body === "string") return { bytes: Buffer.byteLength(body), text: body };
  const text = textIn(coding === undefined ? body : decoded(body, coding.trim().toLowerCase()));
  return { bytes: body.length, ...(text !== undefined && { text }) };
}

const DECODERS = new Map([
  ["gzip", gunzipSync],
  ["x-gzip", gunzipSync],
  ["deflate", inflateSync],
  ["br", brotliDecompressSync],
]);

/** Undefined for a coding that is not known, bytes that do not have it, and content that is too large. */
function decoded(bytes: Uint8Array, coding: string): Uint8Array | undefined {
  try {
    return DECODERS.get(coding)?.(bytes, { maxOutputLength: MAX_DECODED_BYTES });
  } catch {
    return undefined;
  }
}

function textIn(bytes: Uint8Array | undefined): string | undefined {
  if (bytes === undefined) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
