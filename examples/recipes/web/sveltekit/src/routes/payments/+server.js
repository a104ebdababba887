/** SvelteKit: POST /payments. */
import { payments } from "../../../../shop.js";

/** @param {{ request: Request }} event */
export const POST = ({ request }) => payments(request);
