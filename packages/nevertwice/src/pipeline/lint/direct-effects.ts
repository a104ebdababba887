/** Effects that code causes by itself, past `effects`: the network neither sees, stops nor replaces them. */
import type { Axis } from "../model.ts";
import type { CodePiece } from "./reachable-code.ts";

export interface DirectEffect {
  readonly piece: CodePiece;
  readonly position: number;
  /** `Date.now()` */
  readonly what: string;
  /** Undefined for an effect that no axis covers. */
  readonly axis: Axis | undefined;
}

const CALLS: readonly (readonly [axis: Axis, pattern: RegExp])[] = [
  ["http", /(?<![\w$.])(?:globalThis\s*\.\s*)?fetch\s*\(/g],
  ["http", /\bnew\s+(?:XMLHttpRequest|WebSocket|EventSource)\b/g],
  ["time", /(?<![\w$])Date\s*\.\s*now\s*\(|\bnew\s+Date\s*(?:\(\s*\)|(?![\s(]))/g],
  ["time", /\bperformance\s*\.\s*now\s*\(|\bprocess\s*\.\s*hrtime\b|\bTemporal\s*\.\s*Now\b/g],
  ["random", /\bMath\s*\.\s*random\s*\(|\bcrypto\s*\.\s*(?:randomUUID|getRandomValues)\s*\(/g],
  ["random", /(?<![\w$.])(?:randomUUID|randomBytes|randomInt|randomFillSync)\s*\(/g],
];

/** Packages whose use is an effect, by their name or its beginning. */
const PACKAGES: readonly (readonly [axis: Axis | undefined, pattern: RegExp])[] = [
  ["http", /^(?:node:)?(?:https?|http2|net|tls|dgram)$|^(?:undici|axios|got|ky|node-fetch)(?:\/|$)/],
  [
    "db",
    /^(?:pg|postgres|mysql2?|mariadb|ioredis|redis|mongodb|better-sqlite3|knex|kysely|drizzle-orm|node:sqlite)(?:\/|$)|^@prisma\/client/,
  ],
  [undefined, /^(?:node:)?(?:fs|fs\/promises|child_process|worker_threads)$/],
];

export function findDirectEffects(pieces: readonly CodePiece[]): readonly DirectEffect[] {
  return pieces.flatMap((piece) => [...callsIn(piece), ...packagesIn(piece)]);
}

function callsIn(piece: CodePiece): readonly DirectEffect[] {
  const code = piece.source.code.slice(piece.from, piece.to);
  // `{ effects: { http: fetch } }`: the name is the granted effect.
  const isGranted = /\bhttp\s*:\s*fetch\b|\bfetch\s*=\s*(?:[\w$]+\s*\.\s*)*http\b/.test(code);
  return CALLS.flatMap(([axis, pattern]) =>
    [...code.matchAll(pattern)].flatMap(({ 0: found, index }) => {
      if (isGranted && found.startsWith("fetch")) return [];
      const what = found.replace(/\s+/g, " ").replace(/\s*\($/, "()");
      return [{ piece, position: piece.from + index, what, axis }];
    }),
  );
}

function packagesIn(piece: CodePiece): readonly DirectEffect[] {
  const code = piece.source.code.slice(piece.from, piece.to);
  return [...piece.packages].flatMap(([name, module]) =>
    PACKAGES.flatMap(([axis, pattern]) => {
      if (!pattern.test(module)) return [];
      const position =
        piece.from + Math.max(0, code.search(new RegExp(`(?<![\\w$.])${name.replace(/\$/g, "\\$")}\\b`)));
      return [{ piece, position, what: `${name} of ${JSON.stringify(module)}`, axis }];
    }),
  );
}
