/** Request and reply over a network: a caller pushes a message and waits for what a node replies. */
import type { Message, Waiter } from "./message.ts";
import type { PushOutcome } from "./message-outcome.ts";
import type { NetworkContext } from "./network-context.ts";

/** The result of `pipeline.request`. */
export type Requested =
  | {
      readonly status: "replied";
      /** What the network replied. */
      readonly value: unknown;
    }
  | {
      readonly status: "failed";
      /** What became of the message. */
      readonly outcome: PushOutcome;
    }
  /** The message is done, and no node replied. */
  | { readonly status: "no-reply"; readonly outcome: PushOutcome }
  /** The work continues. Repeat the request with the same payload to get the reply. */
  | { readonly status: "timed-out" };

/** Pushes a message for a waiting caller. Resolves with the reply, the message's end or the timeout, whichever is first. */
export function sendRequest(
  { timer, report, network }: NetworkContext,
  timeoutMs: number,
  begin: (waiter: Waiter) => { readonly message: Message; readonly outcome: Promise<PushOutcome> },
): Promise<Requested> {
  const startedAtMs = timer.now();
  return new Promise((resolve, reject) => {
    let about: Pick<Message, "id" | "parents" | "trace"> | undefined;
    let isOver = false;
    const end = (requested: Requested) => {
      if (isOver) return;
      isOver = true;
      cancel();
      if (about !== undefined)
        report?.({
          kind: "request-ended",
          network,
          ...about,
          ending: requested.status,
          tookMs: timer.now() - startedAtMs,
        });
      resolve(requested);
    };
    const cancel = timer.after(timeoutMs, () => end({ status: "timed-out" }));
    const waiter: Waiter = {
      untilMs: startedAtMs + timeoutMs,
      reply: (value) => end({ status: "replied", value }),
    };
    try {
      const { message, outcome } = begin(waiter);
      const { id, parents, trace } = message;
      about = { id, parents, trace };
      report?.({ kind: "request-started", network, ...about });
      outcome.then((settled) => {
        end({ status: settled.verdict === "acknowledge" ? "no-reply" : "failed", outcome: settled });
      }, reject);
    } catch (error) {
      cancel();
      reject(error);
    }
  });
}
