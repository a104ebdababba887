/**
 * Warns about work that sends an HTTP request while its transaction is open: ROLLBACK does not undo the request, a conflict
 * repeats it, and the transaction holds its connection and its locks until the answer comes.
 */
import { warnOnce } from "../core/warning.ts";

/** The members that both kinds of request have in part: those of undici, which is `fetch`, and those of `node:http`. */
interface PublishedRequest {
  readonly origin?: unknown;
  readonly protocol?: string;
  readonly host?: string;
}

/** Published in the asynchronous context of the code that sends the request. */
const CHANNELS = ["undici:request:create", "http.client.request.start"];

/** `currentOperation` is undefined outside of transactions. Called once for a process. */
export function warnOfRequests(currentOperation: () => string | undefined): void {
  const diagnostics = process.getBuiltinModule("node:diagnostics_channel");
  if (diagnostics === undefined) return;
  const onRequest = (message: unknown) => {
    const operation = currentOperation();
    if (operation !== undefined) warn(operation, (message as { readonly request: PublishedRequest }).request);
  };
  for (const channel of CHANNELS) diagnostics.subscribe(channel, onRequest);
}

function warn(operation: string, { origin, protocol, host }: PublishedRequest): void {
  // Without the path, which may hold secrets.
  const receiver = String(origin ?? `${protocol}//${host}`);
  warnOnce(
    "NEVERTWICE_REQUEST_IN_TRANSACTION",
    `operation ${JSON.stringify(operation)}: its work sent a request to ${receiver} inside its transaction. ROLLBACK does not undo it, and a conflict runs the work again. Send it before the transaction, or write a message with attempt.enqueue (docs/exactly-once.md).`,
    operation,
  );
}
