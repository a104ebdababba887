/** The thirty scenarios, by their numbers. Each is one question, whose answer is pass, fail, or not applicable. */
import { concurrency } from "./scenarios/concurrency.js";
import { failures } from "./scenarios/failures.js";
import { lostOwners } from "./scenarios/lost-owners.js";
import { requests } from "./scenarios/requests.js";
import { responses } from "./scenarios/responses.js";
import { time } from "./scenarios/time.js";

export const scenarios = [
  ...concurrency,
  ...failures,
  ...lostOwners,
  ...requests,
  ...responses,
  ...time,
].sort((a, b) => a.number - b.number);
