/** POST /api/payments/{receipt}/refunds: the handler receives its route parameters as usual. */
import { withIdempotency } from "nevertwice/http/fetch";
import { customerOf, guard } from "../../../../../guard.ts";
import { book } from "../../../../../ledger.ts";

export const POST = withIdempotency(
  guard,
  { scope: customerOf, required: true },
  async (_request: Request, { params }: { params: Promise<{ receipt: string }> }) => {
    const { receipt } = await params;
    await book({ refund: receipt });
    return new Response(null, { status: 204 });
  },
);
