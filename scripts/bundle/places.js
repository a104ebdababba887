/** Where the bundle reads and writes. */
import { ROOT } from "../command.js";

export const HOME = `${ROOT}packages/nevertwice/`;
export const SOURCES = `${HOME}src/`;
/** The compiler's output, with one file per module. */
export const BUILD = `${HOME}build/`;
export const DIST = `${HOME}dist/`;
