/** The OpenAI Agents SDK: a tool that charges an order once, however often the agent plans. */
import { tool } from "@openai/agents";
import { isNevertwiceError } from "nevertwice";
import { z } from "zod";

/**
 * Made for each request. The model cannot choose the customer.
 *
 * @param {import("nevertwice").Guard} guard
 * @param {string} customer who is signed in
 * @param {(order: string, cents: number, idempotencyKey: string) => Promise<string>} charge
 */
export function chargeTool(guard, customer, charge) {
  return tool({
    name: "charge",
    description: "Charges an order to the customer's card.",
    parameters: z.object({ order: z.string(), cents: z.number().int().positive() }),
    execute: ({ order, cents }) =>
      guard.run({ operation: "charge", scope: customer, key: order, fingerprint: { cents } }, (attempt) =>
        charge(order, cents, attempt.deriveKey("psp")),
      ),
    // The SDK's own sentence is "Please try again", which is wrong for a conflict.
    errorFunction: (_context, error) =>
      isNevertwiceError(error) ? error.message : "The charge failed, and may have been made.",
  });
}
