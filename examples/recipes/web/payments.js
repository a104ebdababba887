/** The handler that all frameworks of this folder mount: a payment that is made once for each key. */
import { attemptOf, withIdempotency } from "nevertwice/http/fetch";

/**
 * @param {import("nevertwice").Guard} guard
 * @param {(cents: number, idempotencyKey: string | undefined) => Promise<string>} charge
 */
export function createPayments(guard, charge) {
  // Authenticate first. Here the name of the customer serves as the login.
  const scope = (/** @type {Request} */ request) => request.headers.get("x-customer") ?? undefined;
  return withIdempotency(guard, { scope, required: true }, async (request) => {
    const { cents } = /** @type {{ cents: number }} */ (await request.json());
    const receipt = await charge(cents, attemptOf(request)?.deriveKey("psp"));
    return Response.json({ receipt }, { status: 201, headers: { location: `/payments/${receipt}` } });
  });
}
