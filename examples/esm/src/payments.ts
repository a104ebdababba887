/** Charges orders, each once. */
import { createGuard, type Store } from "nevertwice";

export interface Order {
  readonly id: string;
  readonly customer: string;
  readonly amount: number;
}

export interface Receipt {
  readonly id: string;
  readonly amount: number;
}

/** The payment provider. The key is the same on every attempt for an order. */
export type Provider = (key: string, amount: number) => Promise<Receipt>;

export interface Payments {
  charge(order: Order): Promise<Receipt>;
  close(): Promise<void>;
}

/** In production, hand in a store that all processes share, such as `postgresStore` or `redisStore`. */
export function createPayments(store: Store, provider: Provider): Payments {
  const guard = createGuard({ store, namespace: "shop" });
  return {
    charge: ({ id, customer, amount }) =>
      guard.run({ operation: "charge", scope: customer, key: id, fingerprint: { amount } }, ({ deriveKey }) =>
        provider(deriveKey("provider"), amount),
      ),
    async close() {
      await guard.close();
    },
  };
}
