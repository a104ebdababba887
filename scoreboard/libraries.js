/** Every row of the scoreboard, by the module that has it. A run loads only its own, since loading all takes seconds. */

const MODULES = {
  nevertwice: async () => (await import("./libraries/nevertwice-stores.js")).nevertwiceRows,
  steadykey: async () => (await import("./libraries/steadykey.js")).steadykeyRows,
  powertools: async () => (await import("./libraries/powertools.js")).powertoolsRows,
  "node-idempotency": async () => (await import("./libraries/node-idempotency.js")).nodeIdempotencyRows,
  "express-idempotency": async () =>
    (await import("./libraries/express-idempotency.js")).expressIdempotencyRows,
};

export async function loadLibraries() {
  const all = [];
  for (const load of Object.values(MODULES)) all.push(...(await load()));
  return all;
}

export async function loadLibrary(name) {
  const [, load] =
    Object.entries(MODULES).find(([each]) => name === each || name.startsWith(`${each}-`)) ?? [];
  const rows = (await load?.()) ?? [];
  return rows.find((row) => row.name === name);
}
