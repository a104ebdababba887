/**
 * Kills this process at a named point: before a statement is sent, right after it was sent, or when its answer arrives and
 * before the driver sees it. Statements are recognised on the socket by their bytes, so that every driver has the same points.
 */
import { Socket } from "node:net";

/**
 * @typedef {object} Point
 * @property {keyof typeof STATEMENTS} statement
 * @property {Phase} phase
 * @property {number} nth the process is killed when it reaches the point for the nth time
 */
/** @typedef {"before" | "sent" | "answered"} Phase */

/** Texts of the statements on all databases, or the names under which Postgres has prepared them. */
export const STATEMENTS = {
  claim: /nevertwice_claim|insert into "?nevertwice_records/i,
  begin: /\bbegin\b|start transaction/i,
  lock: /txid_current\(\)::text FROM|nevertwice_lock|SELECT 'locked'|SAVEPOINT nevertwice_transaction/,
  work: /insert into .?ledger|'reached the work'/i,
  step: /nevertwice_keep|SET steps = |LAST_INSERT_ID\(fence\)/,
  complete: /WITH done|state = 'completed'|nevertwice_complete|UPDATE nevertwice_records SET state/,
  commit: /\bcommit\b/i,
  outbox: /nevertwice_outbox/,
  delivery: /'reached the delivery'/,
  any: /[a-z]/i,
};

/** @type {(text: string, phase: Phase) => void} */
let reached = () => {};

/** @param {Point} point */
export function dieAt({ statement, phase, nth }) {
  let left = nth;
  reached = (text, reachedPhase) => {
    if (reachedPhase !== phase || !STATEMENTS[statement].test(text)) return;
    if (--left === 0) process.kill(process.pid, "SIGKILL");
  };
  watchSockets();
}

/** For the points of work that sends nothing. */
export function reachWork() {
  reached("'reached the work'", "before");
}

/** @param {Phase} phase */
export function reachDelivery(phase) {
  reached("'reached the delivery'", phase);
}

function watchSockets() {
  const { _write, _writev, push } = Socket.prototype;
  /** What each socket has sent since its last answer. @type {WeakMap<Socket, string>} */
  const unanswered = new WeakMap();

  /** @param {Socket} socket @param {string} text @param {() => void} go */
  function send(socket, text, go) {
    reached(text, "before");
    go();
    // Whatever fits into the system's buffer has left the process by now.
    reached(text, "sent");
    unanswered.set(socket, text);
  }

  Object.assign(Socket.prototype, {
    /** @this {Socket} @param {Buffer} chunk @param {BufferEncoding} encoding @param {() => void} callback */
    _write(chunk, encoding, callback) {
      send(this, String(chunk), () => _write.call(this, chunk, encoding, callback));
    },
    /** @this {Socket} @param {{ chunk: Buffer, encoding: BufferEncoding }[]} chunks @param {() => void} callback */
    _writev(chunks, callback) {
      const text = chunks.map(({ chunk }) => String(chunk)).join("");
      send(this, text, () => _writev?.call(this, chunks, callback));
    },
    /** @this {Socket} @param {Buffer | null} chunk @param {BufferEncoding} [encoding] */
    push(chunk, encoding) {
      const text = unanswered.get(this);
      if (text !== undefined) {
        unanswered.delete(this);
        reached(text, "answered");
      }
      return push.call(this, chunk, encoding);
    },
  });
}

/**
 * The same connection of SQLite, with the same points. There a statement is carried out when its call returns.
 *
 * @param {import("@photostructure/sqlite").DatabaseSyncInstance} database
 */
export function watchConnection(database) {
  /** @template T @param {string} text @param {() => T} run @returns {T} */
  const watched = (text, run) => {
    reached(text, "before");
    const answer = run();
    reached(text, "sent");
    reached(text, "answered");
    return answer;
  };
  return {
    get isTransaction() {
      return database.isTransaction;
    },
    /** @param {string} text */
    exec: (text) => watched(text, () => database.exec(text)),
    /** @param {string} text */
    prepare(text) {
      return new Proxy(database.prepare(text), {
        get(statement, name) {
          const member = Reflect.get(statement, name);
          if (typeof member !== "function") return member;
          const isRun = name === "run" || name === "get" || name === "all";
          /** @param {unknown[]} values */
          const call = (...values) => member.apply(statement, values);
          return isRun ? (/** @type {unknown[]} */ ...values) => watched(text, () => call(...values)) : call;
        },
      });
    },
  };
}
