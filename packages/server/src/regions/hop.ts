/**
 * The mark of a request that a gateway forwards to the gateway of another region: who judged it, whose request it is, and the version of
 * the map that says so. It is signed with the secret that the regions share, over the head of the request, so that no client can
 * make one, and a signed mark fits no other request.
 */
import { createHmac } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { NevertwiceError } from "nevertwice";
import { sameText } from "../access.ts";

export const HOP_HEADER = "Nevertwice-Hop";

export interface Hop {
  readonly from: string;
  readonly to: string;
  /** The version of the home map of the gateway that forwarded the request. */
  readonly map: number;
  /** The owner of the key, as that gateway judged it; empty for `anyone`. */
  readonly scope: string;
}

interface SignedHop extends Hop {
  /** The Host header of the request; null if it has none. */
  readonly host: string | null;
  /** When it was signed, in milliseconds since the epoch. */
  readonly at: number;
}

type MarkedHead = Pick<IncomingMessage, "method" | "url" | "headers">;

/** How much the clocks of two regions may differ. */
const MAX_SKEW_MS = 300_000;

export function writeHop(hop: Hop, { method, url, headers }: MarkedHead, secret: string): string {
  const signed: SignedHop = { ...hop, host: headers.host ?? null, at: Date.now() };
  const payload = Buffer.from(JSON.stringify(signed)).toString("base64url");
  return `${payload}.${signature(payload, { method, url }, secret)}`;
}

/**
 * Undefined if the request has no mark. Throws `not-authorized` for a mark that is not valid: without an error it would be forwarded
 * once more, and back again.
 */
export function readHop(
  req: MarkedHead & Pick<IncomingMessage, "headersDistinct">,
  secret: string,
): Hop | undefined {
  const lines = req.headersDistinct[HOP_HEADER.toLowerCase()];
  if (lines === undefined) return undefined;
  const [payload = "", mac = "", ...more] = (lines[0] ?? "").split(".");
  const isSigned = lines.length === 1 && more.length === 0 && sameText(mac, signature(payload, req, secret));
  if (!isSigned) throw invalidHop();
  const { host, at, ...hop } = JSON.parse(Buffer.from(payload, "base64url").toString()) as SignedHop;
  if (Math.abs(Date.now() - at) > MAX_SKEW_MS || (host !== null && host !== req.headers.host))
    throw invalidHop();
  return hop;
}

/** The parts have their length in front, so that two heads never give one text. */
function signature(
  payload: string,
  { method = "", url = "" }: Pick<MarkedHead, "method" | "url">,
  secret: string,
): string {
  const text = ["nevertwice/hop/1", method, url, payload]
    .map((part) => `${Buffer.byteLength(part)}:${part}`)
    .join("");
  return createHmac("sha256", secret).update(text).digest("base64url");
}

function invalidHop(): NevertwiceError {
  return new NevertwiceError(
    "not-authorized",
    `the header ${HOP_HEADER} was not made by the gateway of another region for this request. Do all regions have the same region_secret, and clocks within 5 minutes? Nothing was done.`,
  );
}
