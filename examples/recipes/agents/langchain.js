/** LangChain: a tool that charges an order once, however often the agent plans. */
import { tool } from "@langchain/core/tools";
import { z } from "zod";

/**
 * Made for each request. The model cannot choose the customer.
 *
 * @param {import("nevertwice").Guard} guard
 * @param {string} customer who is signed in
 * @param {(order: string, cents: number, idempotencyKey: string) => Promise<string>} charge
 */
export function chargeTool(guard, customer, charge) {
  return tool(
    ({ order, cents }) =>
      guard.run({ operation: "charge", scope: customer, key: order, fingerprint: { cents } }, (attempt) =>
        charge(order, cents, attempt.deriveKey("psp")),
      ),
    {
      name: "charge",
      description: "Charges an order to the customer's card.",
      schema: z.object({ order: z.string(), cents: z.number().int().positive() }),
    },
  );
}
