/**
 * Checks the records of clients, servers and the service while servers were killed. The service honours keys, so a second
 * try has no second effect; but a second try must have a reason, and the only valid reason is a kill.
 *
 *   try 1 by a server ──── the server is killed ──── its lease ends ──── try 2 by another, with a higher fence
 */

/** One request that reached the service. Times are of one monotonic clock. */
export interface Try {
  readonly key: string;
  /** The start of the server that sent it: `2.5` is the fifth start of the second server. */
  readonly by: string;
  readonly at: number;
  readonly fence: number;
  /** The number of the effect that it made, or that an earlier try with its key had made. */
  readonly effect: number;
}

export interface Kill {
  readonly server: string;
  readonly at: number;
}

/** The answers that one client got for one key, over all its tries. */
export interface Story {
  readonly key: string;
  readonly refusals: readonly Refusal[];
  /** Undefined if the client gave up. */
  readonly answer: Answer | undefined;
}

export interface Answer {
  readonly status: number;
  readonly effect: number;
  readonly at: number;
}

export interface Refusal {
  /** 0 if the connection broke. */
  readonly status: number;
  readonly type: string;
  readonly code: string;
  readonly retryAfter: string | undefined;
}

export interface Notes {
  readonly stories: readonly Story[];
  readonly tries: readonly Try[];
  readonly kills: readonly Kill[];
}

export interface Verdict {
  readonly problems: readonly string[];
  readonly keys: number;
  readonly tries: number;
  /** Tries that were not the first of their key. */
  readonly repeats: number;
  readonly refusals: Readonly<Record<string, number>>;
}

/** An answer never changes: a kill this much later cannot explain a second try. */
const RECORDED_MS = 2_000;

export function judge({ stories, tries, kills }: Notes): Verdict {
  const byKey = new Map<string, Try[]>();
  for (const each of tries) byKey.set(each.key, [...(byKey.get(each.key) ?? []), each]);
  const answered = new Map<string, number>();
  for (const { key, answer } of stories)
    if (answer !== undefined) answered.set(key, Math.min(answer.at, answered.get(key) ?? answer.at));
  const refusals = stories.flatMap((story) => story.refusals);
  return {
    problems: [
      ...stories.flatMap((story) => answerProblems(story, byKey.get(story.key) ?? [])),
      ...[...byKey].flatMap(([key, ofKey]) =>
        tryProblems(ofKey, answered.get(key) ?? Number.POSITIVE_INFINITY, kills),
      ),
      ...refusals.flatMap(refusalProblems),
    ],
    keys: byKey.size,
    tries: tries.length,
    repeats: tries.length - byKey.size,
    refusals: countOf(
      refusals.map(({ status, code }) => (status === 0 ? "broken off" : `${status} ${code}`)),
    ),
  };
}

function answerProblems({ key, answer }: Story, tries: readonly Try[]): string[] {
  if (answer === undefined) return [`${key} was never answered`];
  if (answer.status !== 201) return [`${key} was answered with ${answer.status}`];
  const effects = new Set(tries.map(({ effect }) => effect));
  if (effects.size !== 1) return [`${key} had ${effects.size} effects`];
  return effects.has(answer.effect) ? [] : [`${key} was answered with the effect of another key`];
}

/** Sorted by fence, which is the order of the claims: the service may receive the try of a killed server late. */
function tryProblems(tries: readonly Try[], answeredAt: number, kills: readonly Kill[]): string[] {
  const inOrder = [...tries].sort((a, b) => a.fence - b.fence);
  return inOrder.flatMap((later, index) => {
    const earlier = inOrder[index - 1];
    if (earlier === undefined) return [];
    // Each start of a server ends once.
    const kill = kills.find(({ server }) => server === earlier.by);
    const isExplained = kill !== undefined && kill.at <= later.at && kill.at <= answeredAt + RECORDED_MS;
    return [
      ...(isExplained
        ? []
        : [`${later.key} was tried again by ${later.by}, and no kill of ${earlier.by} explains it`]),
      ...(later.fence > earlier.fence ? [] : [`${later.key} was tried twice with the fence ${later.fence}`]),
    ];
  });
}

/** The refusals that a client may get while servers are killed: retry later. */
const CLEAN: Readonly<Record<number, readonly string[]>> = {
  409: ["pending"],
  502: ["upstream-lost", "upstream-unreachable"],
  503: ["unavailable", "guard-closed", "upstream-unreachable"],
};

function refusalProblems({ status, type, code, retryAfter }: Refusal): string[] {
  if (status === 0) return [];
  const shown = `${status} ${code} as ${type}`;
  if (!CLEAN[status]?.includes(code) || !type.startsWith("application/problem+json"))
    return [`a client was told ${shown}`];
  return status === 409 && retryAfter === undefined ? [`${shown} says not when to come back`] : [];
}

function countOf(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}
