/** Serves the built site on this machine, under the path and with the addresses that it has when it is published. */
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname } from "node:path";

/** @type {Readonly<Record<string, string>>} */
const TYPES = {
  ".css": "text/css",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".json": "application/json",
  ".md": "text/markdown; charset=utf-8",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".woff2": "font/woff2",
  ".xml": "application/xml",
};

/**
 * @param {string} folder ends with a slash
 * @param {{ base: string, port: number }} options port 0 takes a free one
 * @returns {Promise<{ url: string, close: () => void }>}
 */
export async function serveFolder(folder, { base, port }) {
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? "/", "http://site").pathname);
    const found = await findFile(folder, base, path);
    response.writeHead(found === undefined ? 404 : 200, {
      "content-type": found?.type ?? "text/html; charset=utf-8",
    });
    response.end(found?.content ?? (await readFile(`${folder}404.html`).catch(() => "not found")));
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", () => resolve(undefined)));
  const address = server.address();
  const taken = typeof address === "object" && address !== null ? address.port : port;
  return { url: `http://127.0.0.1:${taken}${base}`, close: () => server.close() };
}

/**
 * @param {string} folder
 * @param {string} base
 * @param {string} path
 */
async function findFile(folder, base, path) {
  if (!path.startsWith(base) || path.includes("..")) return undefined;
  const inside = path.slice(base.length);
  const tries = inside === "" || inside.endsWith("/") ? [`${inside}index.html`] : [inside, `${inside}.html`];
  for (const file of tries) {
    const content = await readFile(folder + file).catch(() => undefined);
    if (content !== undefined) return { content, type: TYPES[extname(file)] ?? "application/octet-stream" };
  }
  return undefined;
}
