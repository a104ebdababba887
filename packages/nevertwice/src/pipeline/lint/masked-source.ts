/**
 * The code of a JavaScript or TypeScript file without its comments and literals: they become blanks, so every position and
 * line stays the same. A search in the masked text then finds code only.
 */

export interface MaskedSource {
  readonly text: string;
  /** As long as `text`. */
  readonly code: string;
  /** The line of a position, from 1. */
  lineAt(position: number): number;
  /** The value of the string literal that begins at or after blanks at this position; undefined if there is none. */
  stringAt(position: number): string | undefined;
}

const COMMENT = /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/y;
const STRING = /"(?:\\[\s\S]|[^"\\\n])*"?|'(?:\\[\s\S]|[^'\\\n])*'?/y;
const REGEX = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[a-z]*/y;
const TEMPLATE_TEXT = /(?:\\[\s\S]|(?!\$\{)[^`\\])*/y;
/** After one of these, or at the start, a slash begins a regular expression. */
const BEFORE_REGEX = /(?:^|[(,=:[!&|?{};+\-*%~^<>]|\b(?:return|typeof|case|in|of|await|yield))\s*$/;

export function maskSource(text: string): MaskedSource {
  const code = mask(text);
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return {
    text,
    code,
    lineAt: (position) => starts.filter((start) => start <= position).length,
    stringAt(position) {
      const [, , value] = /^\s*(["'`])((?:\\.|(?!\1)[^\\\n$])*)\1/.exec(text.slice(position)) ?? [];
      return value;
    },
  };
}

function mask(text: string): string {
  const parts: string[] = [];
  /** The depth of braces inside each template literal that is open. */
  const templates: number[] = [];
  let at = 0;

  const keep = (length: number) => {
    parts.push(text.slice(at, at + length));
    at += length;
  };
  const blank = (taken: string) => {
    parts.push(taken.replace(/[^\n]/g, " "));
    at += taken.length;
  };

  while (at < text.length) {
    const sign = text[at] as string;
    const taken =
      match(COMMENT, text, at) ??
      (sign === '"' || sign === "'" ? match(STRING, text, at) : undefined) ??
      (sign === "/" && isRegexStart(parts) ? match(REGEX, text, at) : undefined);
    if (taken !== undefined) blank(taken);
    else if (sign === "`") {
      blank(sign);
      openTemplate();
    } else if (templates.length > 0 && (sign === "{" || sign === "}")) {
      const depth = (templates.pop() as number) + (sign === "{" ? 1 : -1);
      if (depth === 0) {
        blank(sign);
        openTemplate();
      } else {
        templates.push(depth);
        keep(1);
      }
    } else keep(1);
  }
  return parts.join("");

  /** Blanks the text of a template up to its end, or to the code inside `${`. */
  function openTemplate(): void {
    blank(match(TEMPLATE_TEXT, text, at) ?? "");
    if (text[at] === "`") blank("`");
    else if (at < text.length) {
      blank("${");
      templates.push(1);
    }
  }
}

function isRegexStart(parts: readonly string[]): boolean {
  return BEFORE_REGEX.test(parts.slice(-20).join(""));
}

function match(pattern: RegExp, text: string, at: number): string | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0];
}
