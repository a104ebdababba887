/** Nitro, and Nuxt below `server/`: POST /payments. */
import { fromWebHandler } from "h3";
import { payments } from "../../shop.js";

export default fromWebHandler((request) => payments(request));
