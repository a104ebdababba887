/** Sends the calls of a history to any store, and notes when each was sent and what came back. */
import type { Store } from "nevertwice";
import type { KeyAnswer, KeyCall, SeenRecord } from "./history.ts";

/** The key of a run. */
export interface ProvedKey {
  readonly id: string;
  readonly namespace: string;
  readonly key: string;
}

/** One line of a process's notes: a call before it is sent, an answer before it is used. */
export type HistoryNote =
  | readonly [kind: "sent", call: number, key: string, sentAt: number, what: KeyCall]
  | readonly [kind: "told", call: number, answeredAt: number, answer: KeyAnswer]
  | readonly [kind: "lost", call: number, reason: string];

const OPERATION = "prove";

/** Microseconds of the clock that all processes of a machine share. */
export const monotonicUs = (): number => Number(process.hrtime.bigint() / 1_000n);

/** Sends one call, and returns its answer in the form of histories. */
export async function callStore(
  store: Store,
  { id, namespace, key }: ProvedKey,
  call: KeyCall,
): Promise<KeyAnswer> {
  switch (call.kind) {
    case "claim": {
      const { kind: _, ...terms } = call;
      return store.claim({ id, parts: { namespace, scope: "", operation: OPERATION, key }, ...terms });
    }
    case "complete": {
      const { token, outcome, retentionMs } = call;
      return store.complete({ id, token, outcome, retentionMs });
    }
    case "abandon":
      return store.abandon({ id, token: call.token, as: call.as });
    case "renew":
      return store.renew({ id, token: call.token, leaseMs: call.leaseMs });
    case "forget":
      return (await store.forget?.({ id, fence: call.fence, reopen: call.reopen })) ?? false;
    case "read":
      return toSeen(await store.read(id));
  }
}

function toSeen(record: Awaited<ReturnType<Store["read"]>>): SeenRecord | null {
  if (record === undefined) return null;
  const { state, token, fence, number, hold, fingerprint, outcome } = record;
  return {
    state,
    token,
    fence,
    number,
    hold,
    ...(fingerprint !== undefined && { fingerprint }),
    ...(outcome !== undefined && { outcome }),
  };
}

export interface RecordedStore {
  /** Resolves with the answer, or with undefined if the call failed or was not answered in time. Never rejects. */
  call(key: ProvedKey, call: KeyCall): Promise<KeyAnswer | undefined>;
  /** How many calls were noted. */
  readonly calls: number;
}

export interface RecordingOptions {
  /** Must have written the line when it returns: a process may be killed at any time. */
  readonly note: (line: HistoryNote) => void;
  /** How long a caller waits. An answer that comes later is noted all the same. */
  readonly timeoutMs: number;
}

export function recordStore(store: Store, { note, timeoutMs }: RecordingOptions): RecordedStore {
  let calls = 0;
  return {
    get calls() {
      return calls;
    },
    call(key, what) {
      const number = calls++;
      note(["sent", number, key.key, monotonicUs(), what]);
      return new Promise((resolve) => {
        const late = setTimeout(() => resolve(undefined), timeoutMs);
        callStore(store, key, what).then(
          (answer) => {
            note(["told", number, monotonicUs(), answer]);
            clearTimeout(late);
            resolve(answer);
          },
          (error: unknown) => {
            note(["lost", number, String(error).slice(0, 200)]);
            clearTimeout(late);
            resolve(undefined);
          },
        );
      });
    },
  };
}
