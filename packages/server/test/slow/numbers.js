/** A source that comes to its end. */
export function* numbers() {
  for (const payload of [1, 2, 3]) yield { payload };
}
