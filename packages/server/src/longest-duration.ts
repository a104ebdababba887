/** The longest duration that guards accept, 100 years: what the server stores with it is stored permanently. */
export const LONGEST_DURATION_MS = 3_155_760_000_000;
