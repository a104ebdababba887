/** The application alone. */

export async function create() {
  return { layer: undefined, async close() {} };
}
