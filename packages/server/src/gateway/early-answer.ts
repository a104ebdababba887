/**
 * What the service says before its answer (1xx). Node's own `writeEarlyHints` throws for Link values that are valid, so
 * the lines are written as they came, checked for what would break out of them.
 */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
const MAX_LENGTH = 16_384;
/** Of one connection, or about a body that such an answer does not have. */
const LEFT_OUT = /^(connection|keep-alive|transfer-encoding|content-length|upgrade|trailer|set-cookie)$/i;

/** Does nothing for clients that know no such answers, behind other answers, and after the answer itself has begun. */
export function writeInformation(
  { httpVersion }: IncomingMessage,
  res: ServerResponse,
  status: number,
  lines: readonly string[],
): void {
  if (httpVersion !== "1.1" || res.headersSent || res.socket === null || !res.socket.writable) return;
  // 100 is the gateway's to say, and 101 is no wish of ours.
  if (status === 100 || status === 101) return;
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n`;
  for (let i = 0; i + 1 < lines.length; i += 2) {
    const [name, value] = [lines[i] as string, lines[i + 1] as string];
    if (NAME.test(name) && VALUE.test(value) && !LEFT_OUT.test(name)) text += `${name}: ${value}\r\n`;
  }
  if (text.length <= MAX_LENGTH) res.socket.write(`${text}\r\n`, "latin1");
}
