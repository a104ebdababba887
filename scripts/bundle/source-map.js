/** Makes source maps small. */
import { decode, encode } from "@jridgewell/sourcemap-codec";

/**
 * A map that leads from each line to the line of its source, without columns and without the text of the sources, which
 * would more than double the package. Stack traces still name file and line.
 *
 * @param {string} text of a source map
 */
export function lineMap(text) {
  const { sourcesContent: _text, names: _names, mappings, ...map } = JSON.parse(text);
  const lines = decode(mappings).map((segments) => {
    const first = segments.find((segment) => segment.length > 1);
    return first === undefined
      ? []
      : [/** @type {[number, number, number, number]} */ ([0, first[1], first[2], 0])];
  });
  return JSON.stringify({ ...map, names: [], mappings: encode(lines) });
}

/**
 * The map of a text in which only the contents of lines have changed.
 *
 * @param {string} text
 * @param {string} source
 */
export function sameLines(text, source) {
  const lines = text
    .split("\n")
    .map((_, line) => [/** @type {[number, number, number, number]} */ ([0, 0, line, 0])]);
  return { version: 3, sources: [source], names: [], mappings: encode(lines) };
}
