/** Makes unsigned certificates with any names, for code that reads certificates which are already verified. */
import { generateKeyPairSync, X509Certificate } from "node:crypto";

/** One line of a name, and its string type. */
export interface NameLine {
  readonly field: "CN" | "O" | "OU";
  readonly type: "utf8" | "printable" | "ia5";
  readonly text: string;
}

/** The last byte of 2.5.4.x. */
const FIELDS = { CN: 3, O: 10, OU: 11 } as const;
const TYPES = { utf8: 0x0c, printable: 0x13, ia5: 0x16 } as const;
const ED25519 = element(0x30, element(0x06, Buffer.from([0x2b, 0x65, 0x70])));
const PUBLIC_KEY = generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "der" });

export function certificateFor(issuer: readonly NameLine[], subject: readonly NameLine[]): X509Certificate {
  const time = (text: string) => element(0x17, Buffer.from(text));
  const validity = element(0x30, time("260101000000Z"), time("360101000000Z"));
  const serial = element(0x02, Buffer.from([1]));
  const toBeSigned = element(0x30, serial, ED25519, nameOf(issuer), validity, nameOf(subject), PUBLIC_KEY);
  return new X509Certificate(element(0x30, toBeSigned, ED25519, element(0x03, Buffer.alloc(65))));
}

function nameOf(lines: readonly NameLine[]): Buffer {
  const sets = lines.map(({ field, type, text }) => {
    const oid = element(0x06, Buffer.from([0x55, 0x04, FIELDS[field]]));
    return element(0x31, element(0x30, oid, element(TYPES[type], Buffer.from(text))));
  });
  return element(0x30, ...sets);
}

/** A tag, a length, and the content. */
function element(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const head = length < 0x80 ? [tag, length] : [tag, 0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from(head), content]);
}
