/** The service on Express. */
import { createServer } from "node:http";
import express from "express";
import { idempotency } from "nevertwice/http/express";
import { ANYONE, DERIVED, listening, ROUTES } from "./door.js";

/** @type {import("./door.js").OpenDoor} */
export function open({ guard, port, serve }) {
  const app = express();
  const layered = guard();
  for (const { path, options } of ROUTES) {
    const layer = idempotency(layered, { ...ANYONE, ...options });
    app.post(path, layer, express.text({ type: () => true }), async (req, res) => {
      const answer = await serve(req.body, { key: req.idempotency?.deriveKey(DERIVED) });
      if (answer !== undefined) res.status(answer.status).json(answer.body);
    });
  }
  return listening(createServer(app), port);
}
