/**
 * One sealed outcome, as text: `sealed.1.<id of the sealing key>.<nonce, tag and ciphertext in base64url>`. It is
 * AES-256-GCM under a key that is derived for each record. So the number of records under one sealing key has no limit:
 * random nonces could only collide among the few outcomes of one record.
 */
import { createCipheriv, createDecipheriv, createHmac, type KeyObject, randomBytes } from "node:crypto";
import { NevertwiceError } from "../core/errors.ts";
import { notKept } from "../core/outcome.ts";
import { type Keyring, MAX_ID_LENGTH } from "./keyring.ts";

const SEALED = "sealed.";
const HEAD = `${SEALED}1.`;
const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const DERIVATION = "nevertwice/sealing/1";

/** Outcomes that stores write without sealing. They say that the work is done, and nothing else. */
const MARKERS: ReadonlySet<string> = new Set(
  (["forgotten", "too-large", "not-encodable"] as const).map((reason) => notKept(reason)),
);

/** Binds a sealed step to its record and its name: it cannot be moved to another step. No id of a record contains a space. */
export function stepId(recordId: string, name: string): string {
  return `${recordId} step ${name}`;
}

export function seal({ current }: Keyring, recordId: string, outcome: string): string {
  const head = `${HEAD}${current.id}.`;
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, recordKey(current.key, recordId), nonce, {
    authTagLength: TAG_BYTES,
  });
  cipher.setAAD(boundTo(head, recordId));
  const hidden = [cipher.update(outcome, "utf8"), cipher.final()];
  return head + Buffer.concat([nonce, cipher.getAuthTag(), ...hidden]).toString("base64url");
}

/** Opens the outcome that was sealed for this record; throws `sealing-failed` for anything else. */
export function unseal(keyring: Keyring, recordId: string, text: string): string {
  if (!text.startsWith(SEALED)) return unsealed(keyring, text);
  const end = text.indexOf(".", HEAD.length);
  if (!text.startsWith(HEAD) || end === -1) throw failed("its format is unknown to this version");
  const id = text.slice(HEAD.length, end);
  const key = keyring.keys.get(id);
  if (key === undefined)
    throw failed(`no key has the id ${JSON.stringify(id.slice(0, MAX_ID_LENGTH))} that it names`);
  return decrypted(key, recordId, text.slice(0, end + 1), text.slice(end + 1));
}

function unsealed({ acceptUnsealed }: Keyring, text: string): string {
  if (acceptUnsealed || MARKERS.has(text)) return text;
  throw failed(
    "it is not sealed; if it was stored before sealing was switched on, set acceptUnsealed: true for a while",
  );
}

function decrypted(key: KeyObject, recordId: string, head: string, body: string): string {
  const bytes = Buffer.from(body, "base64url");
  // Decoding ignores invalid characters and the spare bits of the last one, so the text is compared as well.
  if (bytes.length < NONCE_BYTES + TAG_BYTES || bytes.toString("base64url") !== body)
    throw failed("it was altered");
  const nonce = bytes.subarray(0, NONCE_BYTES);
  const decipher = createDecipheriv(CIPHER, recordKey(key, recordId), nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(boundTo(head, recordId));
  decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  try {
    const outcome = decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES));
    return Buffer.concat([outcome, decipher.final()]).toString("utf8");
  } catch (cause) {
    throw failed("the key is wrong, or the outcome was altered or moved from another record", cause);
  }
}

/** Derives the key of a record. The sealing key cannot be computed from it. */
function recordKey(key: KeyObject, recordId: string): Buffer {
  return createHmac("sha256", key).update(DERIVATION).update(recordId).digest();
}

/** Version, sealing key and record: changing any of them makes the tag wrong. */
function boundTo(head: string, recordId: string): Buffer {
  return Buffer.from(head + recordId, "utf8");
}

/** The largest outcome that fits the limit of a store after sealing, whatever the id of the key. */
export function roomWithin(bytes: number): number {
  const room = Math.floor(((bytes - HEAD.length - MAX_ID_LENGTH - 1) * 3) / 4) - NONCE_BYTES - TAG_BYTES;
  return Math.max(0, room);
}

function failed(reason: string, cause?: unknown): NevertwiceError {
  return new NevertwiceError(
    "sealing-failed",
    `the work is done and was not repeated, but its outcome cannot be opened: ${reason}.`,
    cause === undefined ? {} : { cause },
  );
}
