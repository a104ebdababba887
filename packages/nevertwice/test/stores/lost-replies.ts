/** What every database store keeps to when a reply is lost on the way, or a request before it arrives. */
import { expect, type TestContext, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import type { FaultProxy, Filter } from "../services/proxy.ts";
import { claimOf } from "./claim-request.ts";

export const UNAVAILABLE = { code: "unavailable", retryable: true };

export type Step = (store: Store, id: string, token: string) => Promise<unknown>;

/** The steps that an owner takes. */
export const STEPS = {
  complete: (store, id, token) => store.complete({ id, token, outcome: "done", retentionMs: 60_000 }),
  "abandon as released": (store, id, token) => store.abandon({ id, token, as: "released" }),
  "abandon as unknown": (store, id, token) => store.abandon({ id, token, as: "unknown" }),
  "abandon as unrun": (store, id, token) => store.abandon({ id, token, as: "unrun" }),
  renew: (store, id, token) => store.renew({ id, token, leaseMs: 60_000 }),
} satisfies Readonly<Record<string, Step>>;

interface Place {
  /** Behind the proxy. */
  readonly store: Store;
  /** On the same records, without the proxy. */
  readonly direct: Store;
  readonly proxy: FaultProxy;
}

export async function expectClaimRecognised({ store, direct, proxy }: Place, written: Filter): Promise<void> {
  const request = claimOf("a");
  proxy.cutReply(1, written);
  await expect(store.claim(request)).rejects.toMatchObject(UNAVAILABLE);
  const record = await direct.read(request.id);
  expect(record).toMatchObject({ token: request.token, state: "pending" });
  const fence = record?.fence;
  expect(await store.claim(request)).toEqual({ status: "new", fence, number: 1, tookOver: false });
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "pending" });
}

/** Cuts one message of a step, named by `which`, before and after it reaches the server. */
export function testRepeatedStep(
  name: keyof typeof STEPS,
  which: string,
  isCut: Filter,
  open: (context: TestContext) => Promise<Place>,
): void {
  for (const side of ["cutReply", "cutRequest"] as const) {
    test(`lost-reply: ${name} is true when it is repeated (${which}, ${side})`, async (context) => {
      const { store, proxy } = await open(context);
      const owner = claimOf("a");
      const { id, token } = owner;
      await store.claim(owner);
      proxy[side](1, isCut);
      await expect(STEPS[name](store, id, token)).rejects.toMatchObject(UNAVAILABLE);
      expect(await STEPS[name](store, id, token)).toBe(true);
    });
  }
}

export async function expectBackAfterRefusal({ store, proxy }: Place): Promise<void> {
  proxy.refuse();
  proxy.cutAll();
  await expect(store.claim(claimOf("a"))).rejects.toMatchObject(UNAVAILABLE);
  await expect(store.claim(claimOf("a"))).rejects.toMatchObject(UNAVAILABLE);
  proxy.heal();
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "new" });
}
