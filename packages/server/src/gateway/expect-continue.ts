/** `Expect: 100-continue`: the client waits before it sends its body, and the gateway asks for it once it knows the owner. */
import type { IncomingMessage, ServerResponse } from "node:http";

const waiting = new WeakMap<IncomingMessage, ServerResponse>();

export function noteExpectation(req: IncomingMessage, res: ServerResponse): void {
  waiting.set(req, res);
}

/** Does nothing if the client does not wait, or was asked before. */
export function askForBody(req: IncomingMessage): void {
  const res = waiting.get(req);
  waiting.delete(req);
  // While an earlier response is being sent, node would write 100 Continue between its head and its body.
  if (res?.socket && !res.headersSent && !res.destroyed) res.writeContinue();
}
