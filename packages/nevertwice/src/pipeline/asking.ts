/** Request and response over a network: somebody pushes a message and waits for what a node replies. */
import type { Environment } from "./environment.ts";
import type { Message, PushOutcome, Waiter } from "./message.ts";

export type Requested =
  | { readonly status: "replied"; readonly value: unknown }
  | { readonly status: "failed"; readonly outcome: PushOutcome }
  /** Everything is done, and no node replied. */
  | { readonly status: "no-reply"; readonly outcome: PushOutcome }
  /** The work goes on; ask again with the same payload. */
  | { readonly status: "timed-out" };

/** Pushes with somebody who waits: for the reply, the end, or until the time is up, whichever comes first. */
export function ask(
  { timer, tell, network }: Environment,
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
        tell?.({
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
      tell?.({ kind: "request-started", network, ...about });
      outcome.then((settled) => {
        end({ status: settled.verdict === "acknowledge" ? "no-reply" : "failed", outcome: settled });
      }, reject);
    } catch (error) {
      cancel();
      reject(error);
    }
  });
}
