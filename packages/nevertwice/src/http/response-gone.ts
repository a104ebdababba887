/**
 * A client that went away while its answer is held back. The handler does not see it: the response looks like one whose
 * turn on the connection has not come, so that whatever writes to it goes on to the end. Then "close" is told.
 */
import { isHttp2, type NodeResponse } from "./node-response.ts";

export class GoneClient {
  isGone = false;
  readonly #res: NodeResponse;
  #socket: NodeResponse["socket"] = null;
  #untold: string[] | undefined;

  constructor(res: NodeResponse) {
    this.#res = res;
  }

  /** Whether this event says that the client is gone, and is held back. */
  holds(event: string): boolean {
    if (event !== "close" && !(event === "finish" && isHttp2(this.#res))) return false;
    this.#untold ??= [];
    this.#untold.push(event);
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

  /** The response looks closed again, so that what is written to it is dropped. */
  show(): void {
    const res = this.#res;
    if (!this.isGone || isHttp2(res)) return;
    res.socket = this.#socket;
    res.destroyed = true;
    res._closed = true;
  }

  tell(): void {
    for (const event of this.#untold ?? []) this.#res.emit(event);
  }
}
