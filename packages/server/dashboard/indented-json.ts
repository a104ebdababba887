/**
 * Indents a JSON text without changing its tokens: `JSON.parse` would round long numbers and drop repeated members, and
 * an operator has to see what a client got.
 */

const INDENT = "  ";
/** A string, a number or a word, or one of the six signs of structure. White space between them is skipped. */
const TOKEN = /"(?:[^"\\]|\\.)*"|[^\s"{}[\],:]+|[{}[\],:]/g;

/** Undefined if the text is not JSON. */
export function indentedJson(text: string): string | undefined {
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  const pieces: string[] = [];
  let depth = 0;
  let before = "";
  const breakLine = () => pieces.push("\n", INDENT.repeat(depth));
  for (const [token] of text.matchAll(TOKEN)) {
    const isOpened = before === "{" || before === "[";
    if (token === "}" || token === "]") {
      depth--;
      // An empty object or list stays on one line.
      if (!isOpened) breakLine();
    } else if (isOpened || before === ",") breakLine();
    pieces.push(token);
    if (token === "{" || token === "[") depth++;
    if (token === ":") pieces.push(" ");
    before = token;
  }
  return pieces.join("");
}
