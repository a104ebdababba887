/** Makes entries in the ledger, for the processes of a trial. */
import { connect } from "node:net";

/**
 * @param {number} port of the ledger
 * @returns {Promise<(tried: object) => Promise<void>>} resolves once the ledger has it
 */
export async function openLedger(port) {
  const socket = connect(port, "127.0.0.1");
  await new Promise((resolve) => socket.once("connect", resolve));
  /** @type {Map<number, () => void>} */
  const asked = new Map();
  let tries = 0;
  let rest = "";
  socket.setEncoding("utf8").on("data", (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const { try: id } = JSON.parse(line);
      asked.get(id)?.();
      asked.delete(id);
    }
  });
  socket.unref();
  return (tried) =>
    new Promise((resolve) => {
      const id = ++tries;
      asked.set(id, () => resolve());
      socket.write(`${JSON.stringify({ try: id, ...tried })}\n`);
    });
}
