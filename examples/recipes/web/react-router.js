/** React Router in framework mode: a resource route, `app/routes/payments.js`, exports this action. */
import { createPayments } from "./payments.js";

/** @param {Parameters<typeof createPayments>} parts the guard, and what charges */
export function createAction(...parts) {
  const payments = createPayments(...parts);
  return (/** @type {import("react-router").ActionFunctionArgs} */ { request }) => payments(request);
}
