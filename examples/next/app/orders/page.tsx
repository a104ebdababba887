/** A form whose page is built once and served to everybody. The field is empty in the HTML; the browser fills it. */
import { keyAttributes } from "nevertwice/http/form";
import { order } from "./order.ts";

export default function Page() {
  return (
    <form action={order}>
      <label>
        Item <input name="item" required />
      </label>
      <input {...keyAttributes()} />
      <button type="submit">Buy</button>
    </form>
  );
}
