/** Astro: POST /payments. */
import { payments } from "../../../shop.js";

export const prerender = false;

/** @param {{ request: Request }} context */
export const POST = ({ request }) => payments(request);
