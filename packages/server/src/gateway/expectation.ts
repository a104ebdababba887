/** Clients that send a body only when they are asked to (`Expect: 100-continue`). They are asked once it is known who they are. */
import type { IncomingMessage, ServerResponse } from "node:http";

const waiting = new WeakMap<IncomingMessage, ServerResponse>();

export function noteExpectation(req: IncomingMessage, res: ServerResponse): void {
  waiting.set(req, res);
}

/** Does nothing for a client that does not wait, and nothing the second time. */
export function askForBody(req: IncomingMessage): void {
  const res = waiting.get(req);
  waiting.delete(req);
  // Behind another answer node would write it between the head and the body of this one.
  if (res?.socket && !res.headersSent && !res.destroyed) res.writeContinue();
}
