/**
 * A model of etcd for simulations: the keys, revisions and transactions of the HTTP gateway, as a `fetch` that answers at once.
 * It knows only what the store sends.
 */

/** @typedef {{ value: string | undefined, mod: number, created: number }} Entry */
/** @typedef {Readonly<Record<string, any>>} Message */

/** @returns {import("../../packages/nevertwice/src/stores/etcd.ts").EtcdFetch} */
export function modelEtcd() {
  /** @type {Map<string, Entry>} by the text of the key, in base64 */
  const entries = new Map();
  let revision = 1;

  /** @param {string} key */
  const textOf = (key) => Buffer.from(key, "base64").toString("latin1");

  /** @param {Message} range */
  function read({ key, range_end: end, limit = "0", keys_only: keysOnly = false }) {
    const keys =
      end === undefined ? [key].filter((each) => entries.has(each)) : inRange(textOf(key), textOf(end));
    const most = Number(limit) || keys.length;
    const kvs = keys.slice(0, most).map((each) => {
      const { value, mod, created } = /** @type {Entry} */ (entries.get(each));
      return {
        key: each,
        mod_revision: String(mod),
        create_revision: String(created),
        ...(!keysOnly && value !== "" && { value }),
      };
    });
    return { kvs, more: keys.length > most };
  }

  /**
   * @param {string} from
   * @param {string} end
   */
  function inRange(from, end) {
    const keys = [...entries.keys()].filter((each) => textOf(each) >= from && textOf(each) < end);
    return keys.sort((a, b) => (textOf(a) < textOf(b) ? -1 : 1));
  }

  /**
   * @param {Message} transaction
   * @param {number} next the revision of its writes
   * @returns {Message}
   */
  function apply({ compare = [], success = [], failure = [] }, next) {
    /** @param {Message} comparison */
    const isEqual = ({ key, mod_revision }) => String(entries.get(key)?.mod ?? 0) === mod_revision;
    const succeeded = compare.every(isEqual);
    /** @type {readonly Message[]} */
    const operations = succeeded ? success : failure;
    const responses = operations.map(
      ({ request_put: put, request_range: range, request_delete_range: removal, request_txn: inner }) => {
        if (range !== undefined) return { response_range: read(range) };
        if (inner !== undefined) return { response_txn: apply(inner, next) };
        if (put !== undefined) {
          const created = entries.get(put.key)?.created ?? next;
          entries.set(put.key, { value: put.value, mod: next, created });
          revision = next;
          return { response_put: {} };
        }
        if (entries.delete(removal.key)) revision = next;
        return { response_delete_range: {} };
      },
    );
    return { ...(succeeded && { succeeded }), responses };
  }

  return async (url, { body }) => {
    const request = JSON.parse(String(body));
    const answer = url.endsWith("/kv/range") ? read(request) : apply(request, revision + 1);
    const json = async () => ({ header: { revision: String(revision) }, ...answer });
    return /** @type {Response} */ (/** @type {unknown} */ ({ ok: true, status: 200, json }));
  };
}
