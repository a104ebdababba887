/**
 * Measures the reservations of one library. The benchmark fails unless every hold is placed and confirmed once, a retry gets
 * the first answer, and nothing is held twice.
 */
import { deepEqual, equal } from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { library, openTarget, plan, sendRun, timeLanes } from "../forked-run.js";
import { reservations } from "../suites/reservations.js";

const DURATION_MS = 600_000;
const POOL = "the pool";

const { store, inFlight } = plan;

await sendRun(async (count, profiled) => {
  const target = await openTarget();
  const books = await library.create({ store, target });
  await openConnections(books);
  await books.declare(POOL, count);
  const requests = {
    own: Array.from({ length: count }, (_, i) => holdOf(`seat ${i}`, i)),
    pool: Array.from({ length: count }, (_, i) => holdOf(POOL, i)),
  };
  const ids = {};
  const perSecond = {};
  let profiles;

  const before = await target.bytes();
  for (const { name, action, resource } of reservations.phases) {
    const asked =
      action === "placeHold" ? requests[resource] : ids[resource].map((id) => ({ key: randomUUID(), id }));
    const timed = await time({ phase: name, isProfiled: name === profiled }, asked, books[action]);
    if (action === "placeHold") ids[resource] = timed.answers.map(({ id }) => id);
    perSecond[name] = timed.perSecond;
    profiles ??= timed.profiles;
  }
  const bytes = ((await target.bytes()) - before) / (2 * count);

  equal(new Set([...ids.own, ...ids.pool]).size, 2 * count, "two holds have one id");
  await answersAsBefore(books, requests.own[0], ids.own[0]);
  await holdsNothingTwice(books, ids.own[0]);
  await books.close();
  await target.close();
  return { perSecond, bytes, profiles };
});

function holdOf(resource, i) {
  return { key: randomUUID(), resource, requester: `guest ${i % 1_000}`, durationMs: DURATION_MS };
}

/** Every answer must be a success. */
async function time(timing, asked, act) {
  const answers = [];
  const timed = await timeLanes({ ...timing, total: asked.length }, async (n) => {
    const answer = await act(asked[n]);
    if (!answer.ok) throw new Error(`request ${n} was refused: ${JSON.stringify(answer)}`);
    answers[n] = answer;
  });
  return { ...timed, answers };
}

async function openConnections({ placeHold }) {
  await Promise.all(Array.from({ length: inFlight }, (_, i) => placeHold(holdOf(`early seat ${i}`, i))));
}

async function answersAsBefore({ placeHold }, request, id) {
  deepEqual(await placeHold({ ...request }), { ok: true, id }, "a retry was not answered as before");
  const other = await placeHold({ ...request, durationMs: DURATION_MS + 1 });
  equal(other.reason, "token-collision", "a key was answered for another request");
}

async function holdsNothingTwice({ placeHold, confirm }, confirmed) {
  const one = holdOf("a late seat", 0);
  const same = await Promise.all(Array.from({ length: inFlight }, () => placeHold({ ...one })));
  for (const answer of same) deepEqual(answer, same[0], "callers of one key were answered differently");
  equal(same[0].ok, true);
  const others = Array.from({ length: inFlight }, (_, i) => placeHold(holdOf("the last seat", i)));
  const placed = (await Promise.all(others)).filter(({ ok }) => ok);
  equal(placed.length, 1, `${placed.length} hold the last seat`);
  const { reason } = await placeHold(holdOf(POOL, 0));
  equal(reason, "resource-unavailable", "the pool was oversold");
  const again = await confirm({ key: randomUUID(), id: confirmed });
  equal(again.reason, "not-held", "a hold was confirmed twice");
}
