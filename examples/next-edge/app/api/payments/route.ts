/** POST /api/payments, at the edge: charges once for each key. */
import { attemptOf, withIdempotency } from "nevertwice/http/fetch";
import { customerOf, guard } from "../../../guard.ts";

export const runtime = "edge";

export const POST = withIdempotency(
  guard,
  { scope: customerOf, required: true, onPending: "wait" },
  async (request: Request) => {
    const { amount } = (await request.json()) as { amount: number };
    // The same on every attempt, so the provider recognises a second one as a repetition.
    const key = attemptOf(request)?.deriveKey("provider").slice(0, 12);
    const charge = { key, amount, at: crypto.randomUUID() };
    return Response.json(charge, { status: 201, headers: { Location: `/api/payments/${key}` } });
  },
);
