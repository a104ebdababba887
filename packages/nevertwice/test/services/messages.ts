/** Counts the messages that a client sends: a round trip is one, however the bytes were split. */

export type Protocol = "redis" | "postgres" | "mysql";

export interface Messages {
  readonly count: number;
  /** In the order in which they were sent: `EVALSHA`; `Query` and `Sync`; `Query`, `Prepare`, `Execute`, … */
  readonly names: readonly string[];
}

export interface MessageCounter {
  readonly messages: Messages;
  /** For one connection: hand it every chunk that the client sends. */
  listen(isNew: boolean): (chunk: Buffer) => void;
}

/** The length of the first message, and its name if it counts; undefined if it is incomplete. */
type Take = (bytes: Buffer) => { readonly length: number; readonly name?: string | undefined } | undefined;

const TAKERS: Readonly<Record<Protocol, (isNew: boolean) => Take>> = {
  redis: () => takeRedis,
  postgres: takePostgres,
  mysql: () => takeMysql,
};

export function startCounter(protocol: Protocol): MessageCounter {
  const names: string[] = [];
  return {
    messages: {
      names,
      get count() {
        return names.length;
      },
    },
    listen(isNew) {
      const take = TAKERS[protocol](isNew);
      let bytes: Buffer = Buffer.alloc(0);
      return (chunk) => {
        bytes = Buffer.concat([bytes, chunk]);
        for (let next = take(bytes); next !== undefined; next = take(bytes)) {
          bytes = bytes.subarray(next.length);
          if (next.name !== undefined) names.push(next.name);
        }
      };
    },
  };
}

/** A command is an array of strings: `*2 $3 GET $1 k`, each part on a line. */
function takeRedis(bytes: Buffer): ReturnType<Take> {
  let at = 0;
  const number = (): number | undefined => {
    const end = bytes.indexOf("\r\n", at);
    if (end < 0) return undefined;
    const value = Number(bytes.toString("latin1", at + 1, end));
    if (!Number.isInteger(value)) throw new Error(`not a Redis command: ${bytes.toString("latin1", 0, 100)}`);
    at = end + 2;
    return value;
  };
  const count = number();
  if (count === undefined) return undefined;
  let name: string | undefined;
  for (let i = 0; i < count; i++) {
    const length = number();
    if (length === undefined || bytes.length < at + length + 2) return undefined;
    name ??= bytes.toString("latin1", at, at + length).toUpperCase();
    at += length + 2;
  }
  return { length: at, name };
}

const POSTGRES_NAMES: Readonly<Record<string, string>> = { Q: "Query", S: "Sync" };
/** A client that asks for encryption is refused, and starts again without it. */
const ENCRYPTION_REQUESTS = [80_877_103, 80_877_104];

/** A letter, and a length that counts itself; but the first message of a connection has no letter. */
function takePostgres(isNew: boolean): Take {
  let isStarting = isNew;
  return (bytes) => {
    if (isStarting) {
      if (bytes.length < 8 || bytes.length < bytes.readInt32BE(0)) return undefined;
      isStarting = ENCRYPTION_REQUESTS.includes(bytes.readInt32BE(4));
      return { length: bytes.readInt32BE(0) };
    }
    if (bytes.length < 5 || bytes.length < 1 + bytes.readInt32BE(1)) return undefined;
    return { length: 1 + bytes.readInt32BE(1), name: POSTGRES_NAMES[bytes.toString("latin1", 0, 1)] };
  };
}

const MYSQL_NAMES: Readonly<Record<number, string>> = {
  1: "Quit",
  3: "Query",
  14: "Ping",
  22: "Prepare",
  23: "Execute",
  25: "Close",
  31: "Reset",
};

/** A length, a sequence number, and the command. What is not the first of its sequence goes on with one, or logs in. */
function takeMysql(bytes: Buffer): ReturnType<Take> {
  if (bytes.length < 5 || bytes.length < 4 + bytes.readUIntLE(0, 3)) return undefined;
  const command = bytes.readUInt8(4);
  const name = bytes.readUInt8(3) === 0 ? (MYSQL_NAMES[command] ?? `command ${command}`) : undefined;
  return { length: 4 + bytes.readUIntLE(0, 3), name };
}
