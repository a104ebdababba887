/** An Express application around a library's middleware, and the handler of a scenario behind it. */
import { once } from "node:events";
import { createServer } from "node:http";
import express from "express";

/** `before` is mounted in front of the body parser, `after` behind it: each library says where its layer belongs. */
export async function startExpress({ before = [], after = [], isAnswered = () => false, handle }) {
  const app = express();
  app.disable("etag");
  app.disable("x-powered-by");
  // Routes would match HEAD and OPTIONS by themselves; the handler answers every method.
  app.use(...before, express.json({ strict: false }), ...after, async (req, res, next) => {
    if (isAnswered(req)) return;
    try {
      send(res, await handle(toRequest(req)));
    } catch (error) {
      next(error);
    }
  });
  // Express' own handler prints errors; the scenarios throw many on purpose.
  app.use((error, _req, res, next) => {
    if (res.headersSent) return next(error);
    const status = error.status ?? (res.statusCode >= 400 ? res.statusCode : 500);
    return res.status(status).json({ error: String(error.message) });
  });
  const server = createServer(app);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    close: () => closeServer(server),
  };
}

/** As an application shuts down: requests that run may end within five seconds. */
export async function closeServer(server) {
  server.close();
  server.closeIdleConnections();
  const ended = once(server, "close");
  const late = setTimeout(() => server.closeAllConnections(), 5_000);
  await ended;
  clearTimeout(late);
}

function toRequest(req) {
  return { method: req.method, path: req.path, headers: req.headers, body: req.body };
}

/** As handlers do it in the documentation of Express: `send` for one body, `write` and `end` for several chunks. */
function send(res, { status, headers = {}, json, body, chunks }) {
  res.status(status);
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
  if (json !== undefined) res.json(json);
  else if (chunks !== undefined) {
    for (const chunk of chunks) res.write(chunk);
    res.end();
  } else res.send(body);
}
