"use server";

/** The server action of the form: an order that is made once, however often the form is sent. */
import { isNevertwiceError } from "nevertwice";
import { formKey } from "nevertwice/http/form";
import { cookies } from "next/headers";
import { redirect } from "next/navigation";
import { guard } from "../../guard.ts";
import { book } from "../../ledger.ts";

export async function order(form: FormData): Promise<void> {
  const number = await placed(form).catch((error: unknown) => {
    if (isNevertwiceError(error, "key-missing") || isNevertwiceError(error, "conflict")) return undefined;
    throw error;
  });
  // After the work: `redirect` throws, which would release the key.
  redirect(number === undefined ? "/orders/refused" : `/orders/${number}`);
}

async function placed(form: FormData): Promise<string> {
  const item = String(form.get("item"));
  const customer = (await cookies()).get("customer")?.value ?? "guest";
  return guard.run(
    { operation: "orders", scope: customer, key: formKey(form), fingerprint: { item } },
    async (attempt) => {
      const number = attempt.deriveKey("orders").slice(0, 8);
      await book({ order: number, item });
      return number;
    },
  );
}
