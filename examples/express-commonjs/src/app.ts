/** An Express app in CommonJS: POST /payments charges once for each Idempotency-Key. */
import express, { type Express, type Request, type Response } from "express";
import { createGuard, type Store } from "nevertwice";
import { idempotency } from "nevertwice/http/express";

const CUSTOMERS = new Map([
  ["Bearer alice-secret", "alice"],
  ["Bearer bob-secret", "bob"],
]);

export interface Charge {
  readonly key: string;
  readonly amount: number;
}

export function createApp(store: Store, charge: (charge: Charge) => Promise<string>): Express {
  const guard = createGuard({ store, namespace: "shop" });
  const app = express();
  app.use(
    idempotency(guard, {
      scope: (request) => CUSTOMERS.get(request.headers.authorization ?? ""),
      required: true,
      onPending: "wait",
    }),
  );
  app.use(express.json());
  app.post("/payments", async (request: Request, response: Response) => {
    const { amount } = request.body as { amount: number };
    const receipt = await charge({ key: request.idempotency?.deriveKey("provider") ?? "", amount });
    response.status(201).location(`/payments/${receipt}`).json({ receipt, amount });
  });
  return app;
}
