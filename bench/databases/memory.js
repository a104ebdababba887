/** The heap of this process. */

export async function openDatabase() {
  return {
    async bytes() {
      global.gc();
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    },
    async close() {},
  };
}
