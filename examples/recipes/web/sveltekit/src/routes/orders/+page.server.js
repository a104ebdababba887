/** SvelteKit: the form action of /orders. */
import { fail, redirect } from "@sveltejs/kit";
import { refusalOf } from "../../../../orders.js";
import { order } from "../../../../shop.js";

/** @type {import("@sveltejs/kit").Actions} */
export const actions = {
  async default({ request, cookies }) {
    const form = await request.formData();
    let number = "";
    try {
      number = await order(cookies.get("customer") ?? "guest", form);
    } catch (error) {
      const refusal = refusalOf(error);
      if (refusal === undefined) throw error;
      return fail(refusal.status, { message: refusal.message });
    }
    // After the work: `redirect` throws, which would release the key.
    redirect(303, `/orders/${number}`);
  },
};
