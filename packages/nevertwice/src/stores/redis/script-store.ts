/**
 * The calls of a store whose records are in Redis, however Redis is reached: which script a call runs, and what its reply
 * means. redis.ts and upstash.ts add what depends on the client.
 */
import { isExpired } from "../../core/record.ts";
import { toDetails } from "../../core/record-details.ts";
import type { ClaimAnswer, ClaimRequest, ListRequest, Store, StoreRecord } from "../../core/store.ts";
import { type Turns, turnsOfCall } from "../in-turn.ts";
import { undecidedByList } from "../listing.ts";
import { READ, READ_REPLICATED } from "../redis-lua.ts";
import { type RedisAdapter, runScript } from "./client.ts";
import type { ClientListeners } from "./client-listeners.ts";
import { translateErrors } from "./errors.ts";
import type { Evaluation } from "./evaluation.ts";
import { createNodeGroups, type RunOnRecords } from "./node-groups.ts";
import { createQuickClaims, isQuick, UNDECIDED } from "./quick-claims.ts";
import { listRecords, type PageReading, parseRecord, type RecordSource } from "./records.ts";
import { createStepBatches, type ScriptStep } from "./step-batches.ts";
import {
  ABANDON_STEP,
  CLAIM_GROUPING,
  COMPLETE_STEP,
  FORGET_STEP,
  KEEP_STEP_STEP,
  RENEW_STEP,
} from "./steps.ts";

/** The prefix of every key, unless the application chooses another one. */
export const DEFAULT_PREFIX = "nevertwice:";

export interface ScriptStoreOptions {
  readonly adapter: Pick<
    RedisAdapter,
    "isCluster" | "nodes" | "evaluate" | "readTexts" | "masters" | "prefixes"
  >;
  /** `evaluate` of the adapter, or one that also waits for replicas. */
  readonly evaluate: RedisAdapter["evaluate"];
  /** Decides the claims that the client cannot judge itself. */
  readonly claimStep: ScriptStep<ClaimRequest, ClaimAnswer>;
  /** Whether `evaluate` waits for replicas. */
  readonly isReplicated: boolean;
  /** Whether calls that arrive together share a script. */
  readonly isGrouped: boolean;
  /** Whether settled records are published by sharded pub/sub. */
  readonly isSharded?: boolean;
  readonly losses: ClientListeners["losses"];
  readonly prefix: string;
  /** How pages of lists are read; the turns are those of all calls. */
  readonly pages: Omit<PageReading, "turns"> & { readonly turns: Turns };
}

/** Without `settings` and `watch`; `close` does nothing. */
export function createScriptStore(options: ScriptStoreOptions): Store {
  const { adapter, evaluate, claimStep, isReplicated, isGrouped, isSharded, losses, pages } = options;
  const { sent, stored } = adapter.prefixes(options.prefix);
  const toKey = (id: string): string => `${sent}{${id}}`;

  const run: RunOnRecords = (script, ids, args) => {
    const evaluation: Evaluation = [script.sha, String(ids.length)];
    for (const id of ids) evaluation.push(toKey(id));
    evaluation.push(...args);
    return runScript(evaluate, script, evaluation);
  };
  const nodeGroups = adapter.nodes && createNodeGroups(adapter.nodes, (id) => `${stored}{${id}}`);
  const batches = createStepBatches({ isGrouped, isSharded, nodeGroups, run });
  const claims = batches.ofStep(claimStep);
  // With replicas, a claim that finds an outcome must write, so that WAIT has something to wait for.
  const claimQuickly = createQuickClaims({ adapter, losses, toKey });
  const quickClaims = isReplicated
    ? undefined
    : batches.of(
        async (requests: readonly ClaimRequest[], runOn) => {
          const answers = await claimQuickly(requests, runOn);
          return answers.map((answer, index) =>
            answer === UNDECIDED ? claims.run(requests[index] as ClaimRequest) : answer,
          );
        },
        { ...CLAIM_GROUPING, idOf: ({ id }) => id, isApart: true },
      );
  const completions = batches.ofStep(COMPLETE_STEP);
  const renewals = batches.ofStep(RENEW_STEP);
  const abandons = batches.ofStep(ABANDON_STEP);
  const erasures = batches.ofStep(FORGET_STEP);
  const finishedSteps = batches.ofStep(KEEP_STEP_STEP);

  const readScript = isReplicated ? READ_REPLICATED : READ;
  const source: RecordSource = {
    adapter,
    prefix: stored,
    read: (ids, start) => run(readScript, ids, [start]),
  };

  const reads = batches.of(
    async (ids: readonly string[], runOn) => {
      const [time, ...found] = (await runOn(readScript, ids, [""])) as readonly unknown[];
      return ids.map(async (id, index) => toStoreRecord(id, Number(time), found[index]));
    },
    { idOf: (id) => id, isApart: true },
  );

  const readPage = (request: ListRequest, longestMs: number) => {
    const turns = turnsOfCall(pages.turns, request.signal);
    return translateErrors(listRecords(source, request, { ...pages, turns, longestMs }));
  };

  return {
    claim(request): Promise<ClaimAnswer> {
      return quickClaims !== undefined && isQuick(request) ? quickClaims.run(request) : claims.run(request);
    },
    complete: (request) => completions.run(request),
    abandon: (request) => abandons.run(request),
    renew: (request) => renewals.run(request),
    keepStep: (request) => finishedSteps.run(request),
    forget: (request) => erasures.run(request),
    read: (id) => reads.run(id),
    keepsHistory: true,
    async purge() {
      return { removed: 0, more: false };
    },
    collectsItself: true,
    list: (request) => readPage(request, pages.longestMs),
    listOrder: "none",
    // A count is limited in keys alone: limited in time, it would miss keys that wait for a decision while the store is busy.
    undecided: (request) => undecidedByList((page) => readPage(page, Number.POSITIVE_INFINITY), request),
    async close() {},
  };
}

function toStoreRecord(id: string, now: number, stored: unknown): StoreRecord | undefined {
  if (stored === null) return undefined;
  const record = parseRecord(id, stored);
  return isExpired(record, now) ? undefined : toDetails(record, now);
}
