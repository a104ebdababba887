/**
 * One trial of a network that is redeployed with renamed parts. Messages are pushed into processes that are killed at a
 * random call to the store, then into a redeployed network. A referee records what each node did.
 */
import { shortHash } from "../../src/core/identity.ts";
import { compositeKey } from "../../src/core/key.ts";
import type { Store } from "../../src/core/store.ts";
import type { PushOutcome } from "../../src/pipeline/message-outcome.ts";
import { type Pipeline, startPipeline } from "../../src/pipeline/pipeline.ts";
import { type Random, seededRandom } from "../../src/testing/random.ts";
import { createScene, type Scene } from "../core/scene.ts";
import { type Part, type Payload, type Plan, randomPlan, redeployed, sketchOf } from "./random-network.ts";
import { modelOf } from "./scene.ts";

/** The problem of a trial; undefined if it passed. */
export type Violation = string;

interface Notes {
  readonly plans: Plan[];
  /** How often each node ran for a key, or for a message if it has no key. */
  readonly runs: Map<string, number>;
  /** The output of the last run of a key. */
  readonly last: Map<string, { readonly payload: Payload; readonly ports: readonly string[] }>;
  /** Completions that a killed process could not write, by key hash: that work may be repeated. */
  readonly lost: string[];
  readonly hashes: Map<string, string>;
}

const MESSAGES = 4;
/** Longer than a lease: the claims of a killed process have lapsed. */
const BETWEEN_MS = 60_000;
/** After this many deliveries to a process that is not killed, a message with the verdict later would come back forever. */
const MOST_DELIVERIES = 4;

export async function redeployTrial(seed: number): Promise<readonly Violation[]> {
  const random = seededRandom(seed);
  const scene = createScene({ drainMs: 0 });
  const notes: Notes = { plans: [], runs: new Map(), last: new Map(), lost: [], hashes: new Map() };
  const first = randomPlan(random);
  const payloads = Array.from({ length: MESSAGES }, (_, index) => ({
    id: `m${index}`,
    sku: `s${random.between(0, 1)}`,
  }));
  const outcomes = new Map<string, PushOutcome["verdict"]>();
  const open = () => payloads.filter(({ id }) => (outcomes.get(id) ?? "later") === "later");
  const plans = [first, ...(random.chance(0.5) ? [redeployed(first, random)] : [])];
  plans.push(redeployed(plans.at(-1) as Plan, random));
  const hasIds = random.chance(0.8);

  for (const plan of plans) {
    notes.plans.push(plan);
    for (let left = random.between(1, 3); left > 0; left--) {
      const process = createProcess(scene, notes, plan, random, random.between(1, 40));
      await pushAll(scene, process, open(), outcomes, hasIds);
      await scene.advance(BETWEEN_MS);
    }
  }
  for (let left = MOST_DELIVERIES; left > 0 && open().length > 0; left--) {
    await pushAll(scene, createProcess(scene, notes, plans.at(-1) as Plan, random), open(), outcomes, hasIds);
    await scene.advance(BETWEEN_MS);
  }
  const endless = open().map(({ id }) => `${id} comes back for ever`);
  return [...endless, ...doneTwice(notes), ...undelivered(notes, payloads, outcomes)];
}

interface Process {
  readonly pipeline: Pipeline;
  /** Resolves when the process is killed. */
  readonly died: Promise<undefined>;
}

function createProcess(
  scene: Scene,
  notes: Notes,
  plan: Plan,
  random: Random,
  killedAt = Number.POSITIVE_INFINITY,
): Process {
  let calls = 0;
  let kill = () => {};
  const died = new Promise<undefined>((resolve) => {
    kill = () => resolve(undefined);
  });
  const hangs = () => new Promise<never>(() => {});
  /** After its last call, the process's calls to the store are not carried out, or are carried out without an answer. */
  async function call<T>(run: () => Promise<T>, onLost = () => {}): Promise<T> {
    calls++;
    if (calls < killedAt) return run();
    const isDone = calls === killedAt && random.chance(0.5);
    if (isDone) await run();
    else onLost();
    kill();
    return hangs();
  }
  const { inner } = scene;
  const store: Store = {
    ...inner,
    claim: (claim) => call(() => inner.claim(claim)),
    complete: (complete) =>
      call(
        () => inner.complete(complete),
        () => notes.lost.push(shortHash(complete.id)),
      ),
    abandon: (abandon) => call(() => inner.abandon(abandon)),
    renew: (renew) => call(() => inner.renew(renew)),
    read: (id, options) => call(() => inner.read(id, options)),
  };
  const guard = scene.another({ store });
  const effect = async (part: Part, payload: Payload) => {
    if (random.chance(0.1) && killedAt < Number.POSITIVE_INFINITY) throw new Error("no carrier");
    if (random.chance(0.3)) await scene.sleep(random.between(1, 500));
    const key = part.key && payload[part.key];
    const ran = key === undefined ? `${part.name}/${payload.id}` : `${part.name}|${key}`;
    notes.runs.set(ran, (notes.runs.get(ran) ?? 0) + 1);
    if (key === undefined) return;
    notes.last.set(ran, { payload, ports: part.ports.map(({ name }) => name) });
    const subject = { operation: `shop/${part.name}`, scope: compositeKey("shop", part.name).text, key };
    notes.hashes.set(ran, guard.about(subject).keyHash);
  };
  const model = modelOf(sketchOf(plan, effect));
  const ports = { timer: scene.world, random: () => 0.5 };
  return { pipeline: startPipeline(model, guard, {}, ports), died };
}

async function pushAll(
  scene: Scene,
  { pipeline, died }: Process,
  payloads: readonly Payload[],
  outcomes: Map<string, PushOutcome["verdict"]>,
  hasIds: boolean,
): Promise<void> {
  const pushes = payloads.map(async (payload) => {
    const { id } = payload;
    const outcome = await Promise.race([pipeline.push("orders", payload, hasIds ? { id } : {}), died]);
    if (outcome !== undefined) outcomes.set(id, outcome.verdict);
  });
  await scene.settle(Promise.all(pushes));
}

/** No work is repeated, unless its completion was lost with the process that did it. */
function doneTwice({ runs, hashes, lost }: Notes): Violation[] {
  return [...hashes].flatMap(([ran, hash]) => {
    const allowed = 1 + lost.filter((id) => id === hash).length;
    const count = runs.get(ran) ?? 0;
    return count > allowed ? [`${ran} was done ${count} times`] : [];
  });
}

/** All output of an acknowledged message has arrived, by the edges of one of the deployments. */
function undelivered(
  { plans, runs, last }: Notes,
  payloads: readonly Payload[],
  outcomes: ReadonlyMap<string, PushOutcome["verdict"]>,
): Violation[] {
  const hasArrived = (name: string, payload: Payload): boolean =>
    plans.some((plan) => {
      const part = plan.find((one) => one.name === name);
      return part !== undefined && hasArrivedAt(part, payload);
    });
  const hasArrivedAt = ({ name, key, ports }: Part, payload: Payload): boolean => {
    const isSentOn = (port: string) =>
      plans.some((plan) => {
        const to = plan.find((one) => one.name === name)?.ports.find((one) => one.name === port)?.to;
        return to?.every((next) => hasArrived(next, payload)) ?? false;
      });
    if (key === undefined)
      return runs.has(`${name}/${payload.id}`) && ports.every(({ name: port }) => isSentOn(port));
    const run = last.get(`${name}|${payload[key]}`);
    // The output of another message for this key is checked with that message.
    return run !== undefined && (run.payload.id !== payload.id || run.ports.every(isSentOn));
  };
  return payloads.flatMap((payload) => {
    if (outcomes.get(payload.id) !== "acknowledge") return [];
    const isDelivered = plans.some((plan) => hasArrivedAt(plan[0] as Part, payload));
    return isDelivered ? [] : [`${payload.id} was acknowledged, and something that came of it is lost`];
  });
}
