/** The heap of this process. */

export async function openPlace() {
  return {
    async bytes() {
      global.gc();
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    },
    async close() {},
  };
}
