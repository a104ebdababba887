/** Converts a response that another library stored to the form in which the HTTP layer keeps one. */
import { isObject } from "./peer.ts";

/** The form of a kept response: status, alternating names and values of headers, body. */
export type ImportedResponse = readonly [
  status: number,
  headers: readonly string[],
  body: string | Uint8Array,
];

/** The headers that a replay has by default. All others belong to one connection or one moment. */
const REPLAYED = /^(content-(?!length$)[\w-]+|location|etag|last-modified|link)$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: a header must not contain control characters.
const NOT_IN_A_VALUE = /[\u0000-\u0008\u000a-\u001f\u007f]|[^\u0000-\u00ff]/;

/**
 * Reads `{ status | statusCode, headers?, contentType?, body?, isBase64Encoded? }`, as steadykey, node-idempotency, Lambda
 * and CSV files have it. A body that is not a string is sent as JSON. Undefined if it is not a response.
 */
export function toResponse(stored: unknown): ImportedResponse | undefined {
  if (!isObject(stored)) return undefined;
  const { body, contentType, isBase64Encoded } = stored;
  const status = stored.status ?? stored.statusCode;
  if (typeof status !== "number" || !Number.isInteger(status) || status < 200 || status > 599)
    return undefined;
  const headers = [...headerLines(stored.headers), ...headerLines(stored.multiValueHeaders)];
  const isTyped = () => headers.some((text, index) => index % 2 === 0 && text === "content-type");
  if (typeof contentType === "string" && !isTyped()) headers.push("content-type", contentType);
  if (body === undefined || body === null) return [status, headers, ""];
  if (!isTyped()) headers.push("content-type", typeof body === "string" ? TEXT : JSON_TYPE);
  if (typeof body !== "string") return [status, headers, JSON.stringify(body)];
  return [status, headers, isBase64Encoded === true ? new Uint8Array(Buffer.from(body, "base64")) : body];
}

const TEXT = "text/plain; charset=utf-8";
const JSON_TYPE = "application/json; charset=utf-8";

function headerLines(headers: unknown): string[] {
  if (!isObject(headers)) return [];
  return Object.entries(headers).flatMap(([name, values]) => {
    const lower = name.toLowerCase();
    if (!REPLAYED.test(lower)) return [];
    const texts = [values].flat().map(String);
    return texts.filter((text) => !NOT_IN_A_VALUE.test(text)).flatMap((text) => [lower, text]);
  });
}
