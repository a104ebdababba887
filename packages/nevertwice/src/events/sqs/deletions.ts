/** Batches deletions: messages that are done while a call is running are deleted by the next call. */

/** The most deletions that SQS accepts in one call. */
const MAX_BATCH = 10;

/** `send` deletes messages and never rejects. The returned function deletes one message, and resolves once its call has ended. */
export function createDeletions(
  send: (receiptHandles: readonly string[]) => Promise<void>,
): (receiptHandle: string) => Promise<void> {
  let waiting: { readonly receiptHandle: string; readonly resolve: () => void }[] = [];
  let isSending = false;

  async function flush(): Promise<void> {
    if (isSending) return;
    isSending = true;
    while (waiting.length > 0) {
      const batch = waiting.slice(0, MAX_BATCH);
      waiting = waiting.slice(MAX_BATCH);
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
