/** Elysia on Bun: POST /payments. The body is left to the handler, which compares it with the body of the first request. */
import { Elysia } from "elysia";
import { payments } from "../shop.js";

new Elysia()
  .post("/payments", ({ request }) => payments(request), { parse: "none" })
  .listen({ hostname: "127.0.0.1", port: Number(process.env.PORT ?? 3000) });
