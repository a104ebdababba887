/** Astro: the action of the form in `pages/orders/index.astro`. Without `input`, the handler gets the form as it was sent. */
import { ActionError, defineAction } from "astro:actions";
import { refusalOf } from "../../orders.js";
import { order } from "../../shop.js";

export const server = {
  order: defineAction({
    accept: "form",
    handler: (form, { cookies }) =>
      order(cookies.get("customer")?.value ?? "guest", form).catch((error) => {
        const refusal = refusalOf(error);
        if (refusal === undefined) throw error;
        throw new ActionError({ code: ActionError.statusToCode(refusal.status), message: refusal.message });
      }),
  }),
};
