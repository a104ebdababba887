/** Questions and answers between two processes, over Node's own IPC. Either side may ask; each says what it answers to. */

/** @typedef {(argument: any) => unknown} Answerer */

/**
 * @typedef {object} Channel
 * @property {(name: string, argument?: unknown) => Promise<any>} ask Rejects if the other side fails, or is gone.
 * @property {(name: string, answerer: Answerer) => void} answer Says what is done when the other side asks for `name`.
 * @property {(action: () => void) => void} onGone
 */

/**
 * @param {import("node:child_process").ChildProcess | NodeJS.Process} port
 * @returns {Channel}
 */
export function openChannel(port) {
  /** @type {Map<number, { resolve: (answer: any) => void, reject: (error: Error) => void }>} */
  const asked = new Map();
  /** @type {Map<string, Answerer>} */
  const answerers = new Map();
  let lastNumber = 0;

  /** @param {object} message */
  function send(message) {
    // What is sent to a process that is gone is lost, as on any network; a caller that waits for an answer sees the "disconnect" event.
    if (port.connected) port.send?.(message, undefined, undefined, () => {});
  }

  /** @param {{ number: number, name: string, argument: unknown }} question */
  async function reply({ number, name, argument }) {
    try {
      const answerer = answerers.get(name);
      if (answerer === undefined) throw new Error(`nobody answers to ${name}`);
      send({ number, answer: await answerer(argument) });
    } catch (error) {
      send({ number, error });
    }
  }

  port.on("message", (/** @type {any} */ message) => {
    if ("name" in message) return void reply(message);
    const waiter = asked.get(message.number);
    asked.delete(message.number);
    if ("error" in message) waiter?.reject(message.error);
    else waiter?.resolve(message.answer);
  });

  port.on("disconnect", () => {
    for (const { reject } of asked.values()) reject(gone());
    asked.clear();
  });

  return {
    ask(name, argument) {
      return new Promise((resolve, reject) => {
        if (!port.connected) return reject(gone());
        const number = ++lastNumber;
        asked.set(number, { resolve, reject });
        send({ number, name, argument });
      });
    },
    answer(name, answerer) {
      answerers.set(name, answerer);
    },
    onGone(action) {
      port.on("disconnect", action);
    },
  };
}

function gone() {
  return new Error("the other process is gone");
}
