/** The service without a layer, to stand behind a gateway. It tells `reconcile` what became of a key. */
import { createServer } from "node:http";
import { listening } from "./door.js";

/** @param {(key: string) => object} findOutcome */
export function opening(findOutcome) {
  /** @type {import("./door.js").OpenDoor} */
  return ({ port, serve }) => {
    const server = createServer(async (req, res) => {
      let body = "";
      for await (const chunk of req.setEncoding("utf8")) body += chunk;
      const key = /** @type {string | undefined} */ (req.headers["nevertwice-key"]);
      const answer =
        req.url === "/outcome"
          ? { status: 200, body: findOutcome(JSON.parse(body).key) }
          : await serve(body, { key, cut: () => req.socket.destroy() });
      if (answer === undefined) return;
      res.writeHead(answer.status, { "Content-Type": "application/json" });
      res.end(JSON.stringify(answer.body));
    });
    return listening(server, port);
  };
}
