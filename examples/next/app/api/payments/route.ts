/** POST /api/payments: charges once for each key. */
import { attemptOf, withIdempotency } from "nevertwice/http/fetch";
import { customerOf, guard } from "../../../guard.ts";
import { book } from "../../../ledger.ts";

export const POST = withIdempotency(
  guard,
  { scope: customerOf, required: true, onPending: "wait" },
  async (request: Request) => {
    const { amount } = (await request.json()) as { amount: number };
    // The same on every attempt, so the provider recognises a second one as a repetition.
    const receipt = attemptOf(request)?.deriveKey("provider").slice(0, 12);
    await book({ receipt, amount });
    return Response.json(
      { receipt, amount },
      { status: 201, headers: { Location: `/api/payments/${receipt}` } },
    );
  },
);
