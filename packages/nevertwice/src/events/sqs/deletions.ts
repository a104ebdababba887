/** Deletions that travel together: what is done while a call is under way goes with the next one. */

/** The most that SQS takes in one call. */
const MOST = 10;

/** `send` deletes them all, and never rejects. The answer deletes one, and resolves once the call that took it has ended. */
export function createDeletions(
  send: (receiptHandles: readonly string[]) => Promise<void>,
): (receiptHandle: string) => Promise<void> {
  let waiting: { readonly receiptHandle: string; readonly resolve: () => void }[] = [];
  let isSending = false;

  async function flush(): Promise<void> {
    if (isSending) return;
    isSending = true;
    while (waiting.length > 0) {
      const batch = waiting.slice(0, MOST);
      waiting = waiting.slice(MOST);
      await send(batch.map(({ receiptHandle }) => receiptHandle));
      for (const { resolve } of batch) resolve();
    }
    isSending = false;
  }

  return (receiptHandle) =>
    new Promise((resolve) => {
      waiting.push({ receiptHandle, resolve });
      void flush();
    });
}
