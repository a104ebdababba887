/**
 * Ids are digests. The column has their bytes, which take half of the room of hex, in the table and in its index. Statements
 * take and return hex.
 */
import { sha256 } from "#platform";

const DIGEST = /^[0-9a-f]{64}$/;

/** The id as the store keeps it. An id that is no digest, which no guard makes, is stored as its digest. */
export function toDigest(id: string): string {
  return DIGEST.test(id) ? id : sha256(id, "hex");
}

/** The call with the id as the store keeps it. */
export function withDigest<Call extends { readonly id: string }>(call: Call): Call {
  return DIGEST.test(call.id) ? call : { ...call, id: toDigest(call.id) };
}

/** Of a parameter, as an expression. */
export const fromHex = (hex: string) => `decode(${hex}, 'hex')`;

/** Of a column, as an expression. */
export const toHex = (id: string) => `encode(${id}, 'hex')`;
