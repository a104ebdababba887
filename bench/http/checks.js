/** Checks that a layer does its job. One that does not is not measured. */
import { deepEqual, equal, notEqual, ok } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { makeOperations } from "../payload.js";
import { ACCOUNT, bodyOf, freshKeys } from "./load.js";

/** How often a caller retries a request that is still running. */
const ASK_AGAIN_MS = 10;

/**
 * The first answer and its replay are the application's own, the work ran once, another request with the same key is
 * refused, and concurrent callers run the work once.
 *
 * @param {{ port: number, isBare: boolean, callers: number, ranDuring: (requests: () => Promise<void>) => Promise<number> }} subject
 */
export async function check({ port, isBare, callers, ranDuring }) {
  const keys = freshKeys();
  const ran = await ranDuring(async () => {
    await answersRight(port, keys.keyOf(1), 1);
    if (!isBare) await answersRight(port, keys.keyOf(1), 1);
  });
  equal(ran, 1, `a request and its retry ran the work ${ran} times`);
  if (isBare) return;

  const ranAgain = await ranDuring(async () => {
    const { status } = await post(port, "/charges", keys.keyOf(1), 2);
    ok(status >= 400 && status < 500, `a reused key was answered with ${status}`);
  });
  equal(ranAgain, 0, "a reused key ran the work again");

  const ranAtOnce = await ranDuring(async () => {
    await Promise.all(Array.from({ length: callers }, () => insist(port, keys.keyOf(3), 3)));
  });
  equal(ranAtOnce, 1, `${callers} callers at once ran the work ${ranAtOnce} times`);
}

/**
 * @param {number} port
 * @param {string} key
 * @param {number} n
 */
async function answersRight(port, key, n) {
  const response = await post(port, "/charges", key, n);
  equal(response.status, 201);
  deepEqual(await response.json(), outcomeOf(n));
}

/**
 * Retries until the answer is there.
 *
 * @param {number} port
 * @param {string} key
 * @param {number} n
 */
async function insist(port, key, n) {
  for (;;) {
    const response = await post(port, "/slow-charges", key, n);
    if (response.status === 201) return deepEqual(await response.json(), outcomeOf(n));
    equal(response.status, 409);
    await response.body?.cancel();
    await sleep(ASK_AGAIN_MS);
  }
}

/**
 * @param {number} port
 * @param {string} path
 * @param {string} key
 * @param {number} n
 */
function post(port, path, key, n) {
  return fetch(`http://127.0.0.1:${port}${path}`, {
    method: "POST",
    headers: { authorization: ACCOUNT, "content-type": "application/json", "idempotency-key": key },
    body: bodyOf(n),
  });
}

/** @param {number} n */
function outcomeOf(n) {
  const outcome = makeOperations(n + 1).at(n)?.outcome;
  notEqual(outcome, undefined);
  return outcome;
}
