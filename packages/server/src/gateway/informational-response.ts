/**
 * Forwards informational responses (1xx) of the service. Node's `writeEarlyHints` throws for some valid Link values, so
 * the header lines are written directly, after a check that they cannot inject further lines.
 */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
const MAX_LENGTH = 16_384;
/** Headers of one connection, or of a body, which such a response does not have. */
const LEFT_OUT = /^(connection|keep-alive|transfer-encoding|content-length|upgrade|trailer|set-cookie)$/i;

/**
 * Does nothing for HTTP/1.0 clients, which do not know such responses; while an earlier response is being sent; and
 * after the final response has started.
 */
export function writeInformational(
  { httpVersion }: IncomingMessage,
  res: ServerResponse,
  status: number,
  lines: readonly string[],
): void {
  if (httpVersion !== "1.1" || res.headersSent || res.socket === null || !res.socket.writable) return;
  // The gateway itself sends 100, and it never asks the service to switch protocols (101).
  if (status === 100 || status === 101) return;
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n`;
  for (let i = 0; i + 1 < lines.length; i += 2) {
    const [name, value] = [lines[i] as string, lines[i + 1] as string];
    if (NAME.test(name) && VALUE.test(value) && !LEFT_OUT.test(name)) text += `${name}: ${value}\r\n`;
  }
  if (text.length <= MAX_LENGTH) res.socket.write(`${text}\r\n`, "latin1");
}
