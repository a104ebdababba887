/** The TCP proxy with faults of `nevertwice prove`, which here also counts the messages that clients send. */
import {
  type ChunkFilter,
  type FaultProxy as ProvedProxy,
  startProxy as start,
} from "../../../server/cli/prove/proxy.ts";
import { type Messages, type Protocol, startCounter } from "./messages.ts";

export type Filter = ChunkFilter;

export interface FaultProxy extends ProvedProxy {
  /** Counts the messages that clients send from now on. Call it between two messages. */
  countRequests(protocol: Protocol): Messages;
}

/** `target` is a URL, or a port of the loopback address. */
export async function startProxy(target: string | number): Promise<FaultProxy> {
  const proxy = await start(target);
  return Object.assign(proxy, {
    countRequests(protocol: Protocol) {
      const { messages, listen } = startCounter(protocol);
      proxy.observe(listen);
      return messages;
    },
  });
}
