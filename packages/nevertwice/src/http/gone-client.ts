/**
 * A client that has disconnected while its response is held back. The handler does not see it: the response looks like
 * one that waits for its turn on the connection, so the handler writes it to its end. Then the events are emitted.
 */
import { isHttp2, type NodeResponse } from "./node-response.ts";

export class GoneClient {
  isGone = false;
  readonly #res: NodeResponse;
  #socket: NodeResponse["socket"] = null;
  #heldEvents: string[] | undefined;

  constructor(res: NodeResponse) {
    this.#res = res;
  }

  /** Whether this event reports the disconnect. Then it is held back. */
  holds(event: string): boolean {
    if (event !== "close" && !(event === "finish" && isHttp2(this.#res))) return false;
    this.#heldEvents ??= [];
    this.#heldEvents.push(event);
    return true;
  }

  hide(): void {
    const res = this.#res;
    if (!this.isGone) this.#socket = res.socket;
    this.isGone = true;
    if (isHttp2(res)) return;
    res.socket = null;
    res.destroyed = false;
    res._closed = false;
  }

  /** Makes the response look closed again, so that Node drops what is written to it. */
  show(): void {
    const res = this.#res;
    if (!this.isGone || isHttp2(res)) return;
    res.socket = this.#socket;
    res.destroyed = true;
    res._closed = true;
  }

  emitHeldEvents(): void {
    for (const event of this.#heldEvents ?? []) this.#res.emit(event);
  }
}
