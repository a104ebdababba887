/** Checks that the service got what the clients sent, and that each response went to its own client. */
import { pathReadings, queryOf } from "./path-readings.ts";
import {
  type Lines,
  type ReadRequest,
  type ReadResponse,
  readRequests,
  readResponses,
  valuesOf,
} from "./reading.ts";
import { caseOf } from "./recorder.ts";

export interface RequestJudge {
  /** Records the requests that a client is about to send, and returns them. The last one may be unfinished. */
  expect(bytes: string): readonly ReadRequest[];
  /** The problems of a request that the service received. */
  problemsOf(seen: ReadRequest): readonly string[];
}

/** Header fields that the gateway, or nginx behind it, sets itself. */
const ADDED = new Set(
  "host connection content-length transfer-encoding via forwarded x-forwarded-for x-forwarded-host x-forwarded-proto nevertwice-fence nevertwice-key nevertwice-attempt x-location x-real-ip".split(
    " ",
  ),
);
const FORGEABLE = /^(forwarded|x-forwarded-.*|x-real-ip|nevertwice-(fence|key|attempt)|host)$/;
/** How many requests are kept: older ones no longer reach the service. */
const REMEMBERED = 10_000;
const WRITES = /^(POST|PATCH|PUT|DELETE)$/;

export function createRequestJudge(): RequestJudge {
  const sent = new Map<string, ReadRequest>();
  const seenOnce = new Set<string>();
  return {
    expect(bytes) {
      const { messages, unfinished } = readRequests(bytes);
      const requests = unfinished === undefined ? messages : [...messages, unfinished];
      for (const request of requests) sent.set(caseOf(request.headers, request.target), request);
      for (const [id] of sent) if (sent.size > REMEMBERED) sent.delete(id);
      return requests;
    },
    problemsOf(seen) {
      const id = caseOf(seen.headers, seen.target);
      const meant = sent.get(id);
      if (meant === undefined) return [`the service saw ${told(seen)}, which no client sent`];
      const isTwice = seenOnce.has(id);
      seenOnce.add(id);
      return [
        ...(seen.objection === undefined ? [] : [`the service saw ${seen.objection} in ${told(seen)}`]),
        ...(isTwice ? [`the service saw ${id} twice`] : []),
        ...differences(seen, meant),
        ...unguarded(seen),
        ...forged(seen),
      ];
    },
  };
}

function differences(seen: ReadRequest, meant: ReadRequest): readonly string[] {
  const isSameBody =
    seen.isWhole && meant.isWhole ? seen.body === meant.body : meant.body.startsWith(seen.body);
  const isSamePath = pathReadings(seen.target).at(-1) === pathReadings(meant.target).at(-1);
  const isSame = isSameBody && isSamePath && seen.method === meant.method;
  // Servers ignore the part after #.
  const queries = [seen, meant].map(({ target }) => queryOf(target).split("#", 1)[0]);
  const known = new Set([...meant.headers, ...meant.trailers].map(lineText));
  const strange = seen.headers.filter(
    (line) => !ADDED.has(line[0].toLowerCase()) && !known.has(lineText(line)),
  );
  return [
    ...(isSame && queries[0] === queries[1]
      ? []
      : [`the service saw ${told(seen)} instead of ${told(meant)}`]),
    ...(seen.isWhole && !meant.isWhole ? [`half a request became the whole ${told(seen)}`] : []),
    ...strange.map(
      ([name]) => `the service saw the header ${name} in ${told(seen)}, which its client did not send`,
    ),
  ];
}

/** Requests that bypassed a rule that requires a key. */
function unguarded({ method, target, headers }: ReadRequest): readonly string[] {
  if (!WRITES.test(method)) return [];
  const readings = pathReadings(target);
  const location = valuesOf(headers, "x-location")[0];
  const isPayment = location === "payments" || readings.some((path) => /^\/payments(\/|$)/.test(path));
  const isOrder = location === "orders" || readings.includes("/orders");
  const hasKey = valuesOf(headers, "idempotency-key").length > 0;
  const hasTenant = valuesOf(headers, "x-tenant").length > 0;
  return [
    ...((isPayment || isOrder) && !hasKey ? [`${method} ${target} came to the service without a key`] : []),
    ...(isOrder && hasKey && !hasTenant ? [`${method} ${target} came to the service without a tenant`] : []),
  ];
}

function forged({ headers, trailers }: ReadRequest): readonly string[] {
  return [...headers, ...trailers]
    .filter(
      ([name, value]) => value.includes("forged") && FORGEABLE.test(name.toLowerCase().replaceAll("_", "-")),
    )
    .map(([name]) => `the service saw ${name} as the client had forged it`);
}

/** The answers that one connection received to these requests, and their problems. */
export function answerProblems(
  asked: readonly ReadRequest[],
  bytes: string,
  isClosed: boolean,
): { readonly answers: readonly ReadResponse[]; readonly problems: readonly string[] } {
  const reading = readResponses(
    bytes,
    asked.map(({ method }) => method),
    isClosed,
  );
  const whole = reading.messages.filter(({ status }) => status >= 200);
  const answers = reading.unfinished === undefined ? whole : [...whole, reading.unfinished];
  const problems = answers.flatMap(({ headers }, turn) => {
    const [id] = valuesOf(headers, "x-answer");
    const request = asked[turn];
    const wanted = request === undefined ? undefined : caseOf(request.headers, request.target);
    return id === undefined || id === wanted ? [] : [`${wanted} got the answer to ${id}`];
  });
  // After the last readable request, the expected responses are unknown.
  if (reading.malformed !== undefined && answers.length <= asked.length)
    problems.push(
      `a client cannot read its answer: ${reading.malformed} in ${JSON.stringify(bytes.slice(0, 600))}`,
    );
  return { answers, problems };
}

function told({ method, target, body }: ReadRequest): string {
  return `${method} ${target} with ${JSON.stringify(body.slice(0, 300))}`;
}

function lineText([name, value]: Lines[number]): string {
  return `${name.toLowerCase()}:${value}`;
}
