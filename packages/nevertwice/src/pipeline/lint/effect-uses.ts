/** Which granted effects code uses, and by which ports it emits, as far as its text shows. */
import type { CodePiece } from "./reachable-code.ts";

/** Something that a handler uses by name. */
export interface NamedUse {
  readonly name: string;
  readonly piece: CodePiece;
  readonly position: number;
}

export interface Uses {
  readonly uses: readonly NamedUse[];
  /** Whether all uses were found. False if the text hands on, or reads by a computed name, what it uses. */
  readonly isWhole: boolean;
}

/** `effects.http`, `{ effects: { http } }` and `const { http } = effects`. */
export function findEffectUses(pieces: readonly CodePiece[]): Uses {
  const uses: NamedUse[] = [];
  let isWhole = true;
  for (const piece of pieces) {
    const code = piece.source.code.slice(piece.from, piece.to);
    const add = (name: string, index: number) => uses.push({ name, piece, position: piece.from + index });
    const understood = new Set<number>();
    for (const { 0: found, 1: name = "", index } of code.matchAll(
      /\beffects\s*\??\.\s*([A-Za-z_$][\w$]*)/g,
    )) {
      understood.add(index);
      add(name, index + found.length - name.length);
    }
    for (const { 1: names = "", index } of code.matchAll(/\beffects\s*:\s*\{([^{}]*)\}/g)) {
      understood.add(index);
      for (const name of boundNames(names)) add(name, index);
    }
    for (const { 0: found, 1: names = "", index } of code.matchAll(
      /\{([^{}]*)\}\s*=\s*(?:[\w$]+\s*\.\s*)*effects\b/g,
    )) {
      understood.add(index + found.length - "effects".length);
      for (const name of boundNames(names)) add(name, index);
    }
    // `{ effects }` among the parameters binds the name whose uses are found above.
    for (const { index } of code.matchAll(/(?<=[{,]\s*)effects(?=\s*[,}])/g)) understood.add(index);
    const all = [...code.matchAll(/\beffects\b/g)].map(({ index }) => index);
    if (all.some((index) => !understood.has(index))) isWhole = false;
  }
  return { uses, isWhole };
}

/** `{ http, time: clock }` binds http and time. */
function boundNames(text: string): readonly string[] {
  return text.split(",").flatMap((item) => /^\s*([A-Za-z_$][\w$]*)/.exec(item)?.[1] ?? []);
}

/** `effects.db("main", "charges:insert")`, with the texts of its arguments. */
export function findTableUses(pieces: readonly CodePiece[]): readonly NamedUse[] {
  return pieces.flatMap((piece) => {
    const { code } = piece.source;
    return [...code.slice(piece.from, piece.to).matchAll(/\bdb\s*\(\s*[^,()]*,/g)].flatMap(
      ({ 0: found, index }) => {
        const position = piece.from + index;
        const name = piece.source.stringAt(position + found.length);
        return name === undefined ? [] : [{ name, piece, position }];
      },
    );
  });
}

/** `emit("charged", payload)`. Not whole if no call was found: then something else emits. */
export function findEmits(pieces: readonly CodePiece[]): Uses {
  const uses: NamedUse[] = [];
  let calls = 0;
  for (const piece of pieces) {
    const { code } = piece.source;
    for (const { 0: found, index } of code.slice(piece.from, piece.to).matchAll(/(?<![\w$])emit\s*\(/g)) {
      calls++;
      const position = piece.from + index;
      const name = piece.source.stringAt(position + found.length);
      if (name !== undefined) uses.push({ name, piece, position });
    }
  }
  return { uses, isWhole: calls > 0 && uses.length === calls };
}
