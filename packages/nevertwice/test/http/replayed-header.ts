/** The name of the header that marks a replay. Every test takes it from here; `replayed-header.test.ts` pins its text. */
import { HTTP_DEFAULTS } from "../../src/http/options.ts";

export const REPLAYED_HEADER: string = HTTP_DEFAULTS.replayedHeader;

/** In lower case, as most clients look it up. */
export const REPLAYED: string = REPLAYED_HEADER.toLowerCase();
