/** A consumer without a guard: every delivery is work. */

export async function create({ work }) {
  return {
    async handle(message) {
      await work(message);
      message.ack();
    },
    runsAgain: true,
    async close() {},
  };
}
