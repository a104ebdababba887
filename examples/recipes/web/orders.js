/** The order that the form actions of this folder make: once for each form that was filled in, however often it is sent. */
import { isNevertwiceError } from "nevertwice";
import { formKey } from "nevertwice/http/form";

/**
 * @param {import("nevertwice").Guard} guard
 * @param {(item: string, idempotencyKey: string) => Promise<string>} place
 */
export function createOrders(guard, place) {
  /** Returns the number of the order. `customer` comes from your authentication. */
  return async (/** @type {string} */ customer, /** @type {FormData} */ form) => {
    const item = String(form.get("item"));
    return guard.run(
      { operation: "orders", scope: customer, key: formKey(form), fingerprint: { item } },
      (attempt) => place(item, attempt.deriveKey("orders")),
    );
  };
}

/**
 * The answer to a form that was refused and carried out nothing. Other errors are not for users: throw them on.
 *
 * @param {unknown} error
 */
export function refusalOf(error) {
  if (isNevertwiceError(error, "key-missing"))
    return { status: 400, message: "This form needs JavaScript. Nothing was ordered." };
  if (isNevertwiceError(error, "conflict"))
    return {
      status: 422,
      message: "You have ordered already. To order something else, open the page again.",
    };
  return undefined;
}
