/** `nevertwice import`: takes over the completed keys of another library, so that their duplicates are still recognised. */
import { createClaims } from "nevertwice/claims";
import { durationMs } from "nevertwice/env";
import { openStore } from "nevertwice/stores/open";
import { withoutPassword } from "../src/config.ts";
import { LONGEST_DURATION_MS } from "../src/longest-duration.ts";
import {
  type Command,
  type CommandCall,
  type CommandResult,
  EXIT,
  type Flags,
  JSON_FLAG,
  UsageError,
} from "./command.ts";
import { NO_CHECKPOINT, openCheckpoint } from "./import/checkpoint.ts";
import { countLines, isComplete, verdictLine } from "./import/counts.ts";
import { csv } from "./import/csv.ts";
import { createMapping, type Templates } from "./import/mapping.ts";
import { nodeIdempotency } from "./import/node-idempotency.ts";
import type { OutcomeForm, Peer } from "./import/peer.ts";
import { powertools } from "./import/powertools.ts";
import { type ImportReport, type ImportRun, runImport } from "./import/run.ts";
import type { Source } from "./import/source.ts";
import { steadykey } from "./import/steadykey.ts";
import { createJudge, createWriter } from "./import/writer.ts";
import { CONFIG_FLAG, configFrom, settingsFlags } from "./settings-flags.ts";
import { durationText, plain, progressBar } from "./terminal.ts";

const PEERS: Readonly<Record<string, Peer>> = {
  steadykey,
  "node-idempotency": nodeIdempotency,
  powertools,
  csv,
};

const FLAGS: Flags = {
  from: { value: Object.keys(PEERS).join("|"), what: "the library that stored the keys, or csv for a file" },
  operation: { value: "TEMPLATE", what: "the operation of the imported keys; default: see below" },
  scope: { value: "TEMPLATE", what: "their scope; default: none" },
  key: { value: "TEMPLATE", what: "their key; default: see below" },
  match: { value: "REGEX", what: "takes the stored key apart; its named groups are fields of the templates" },
  prefix: { value: "TEXT", what: "the prefix of the stored keys, if the library was configured with one" },
  as: { value: "value|response", what: "what a duplicate gets: a value of a function, or an HTTP response" },
  retention: {
    value: "DURATION",
    what: "how long keys are kept that never expire at the source",
    default: durationText(LONGEST_DURATION_MS),
  },
  fingerprints: {
    value: "payload|none",
    what: "whether to make fingerprints of the payloads that the library stored",
    default: "payload",
  },
  checkpoint: { value: "FILE", what: "keeps the position there, so that the same command continues" },
  "dry-run": { what: "read and judge every key, and write nothing" },
  ...settingsFlags(["store", "namespace"]),
  ...CONFIG_FLAG,
  ...JSON_FLAG,
};

export const importCommand: Command = {
  summary: "take over the completed keys of another library",
  actions: {
    "": {
      summary:
        "Imports completed keys with their outcomes and remaining retention. Running it again is safe.",
      takes: ["SOURCE"],
      flags: FLAGS,
      notes: [
        "",
        "SOURCE is a CSV or SQLite file, or a sqlite:, postgres://, mysql://, redis:// or dynamodb:// URL.",
        "A TEMPLATE is text with fields of the stored key. Fields and defaults:",
        "  steadykey          {namespace} {id}           operation {namespace}       key {id}    as value",
        "  node-idempotency   {method} {path} {key}      operation {method} {path}   key {key}   as response",
        "  powertools         {prefix} {hash}            operation {prefix}          key {hash}  as value",
        "  csv                the columns of the file    operation {operation}       key {key}   as value",
      ],
      showsProgress: true,
      run: importKeys,
    },
  },
};

async function importKeys(call: CommandCall): Promise<CommandResult> {
  const [given = ""] = call.args;
  const from = call.text("from");
  if (from === undefined) throw new UsageError(`--from is missing: ${Object.keys(PEERS).join(", ")}.`);
  const peer = PEERS[from] as Peer;
  const { store, namespace } = configFrom(call);
  const retentionMs = durationMs("--retention", call.text("retention") as string);
  const source = await peer.open(given, call.text("prefix"));
  const bar = progressBar(source.total);
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  process.once("SIGTERM", onSignal).once("SIGINT", onSignal);
  try {
    const reading = readingFrom(call, peer, source);
    const subject = {
      ...{ from, source: withoutPassword(given), store: withoutPassword(store), namespace },
      ...{
        ...reading.peerOptions,
        isMatched: undefined,
        match: call.text("match"),
        ...reading.mapping.templates,
      },
    };
    const run = { ...reading, source, bar, retentionMs, signal: stop.signal };
    const isDryRun = call.has("dry-run");
    const report = isDryRun
      ? await runImport({ ...run, write: createJudge(namespace), checkpoint: NO_CHECKPOINT })
      : await importInto(
          { store, namespace },
          { ...run, checkpoint: openCheckpoint(call.text("checkpoint"), subject) },
        );
    return toResult(report, isDryRun);
  } finally {
    bar.end();
    process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
    await source.close();
  }
}

/** How the flags say that an entry becomes a key. */
function readingFrom(call: CommandCall, peer: Peer, source: Source) {
  const match = call.text("match");
  return {
    peer,
    mapping: createMapping(
      templatesFrom(call, peer, source.columns),
      match,
      peer.fields ?? source.columns ?? [],
    ),
    peerOptions: {
      prefix: call.text("prefix"),
      form: (call.text("as") ?? peer.form) as OutcomeForm,
      isMatched: match !== undefined,
    },
    hasFingerprints: call.text("fingerprints") === "payload",
  };
}

/** Where a CSV file has no such column, there is no default. */
function templatesFrom(
  call: CommandCall,
  { templates }: Peer,
  columns: readonly string[] | undefined,
): Templates {
  const either = (name: keyof Templates) => {
    const isThere = columns === undefined || columns.includes(name);
    return call.text(name) ?? (isThere ? templates[name] : "");
  };
  const chosen = { operation: either("operation"), scope: either("scope"), key: either("key") };
  if (chosen.operation === "")
    throw new UsageError("the keys need an operation: give one, such as --operation charge.");
  return chosen;
}

/** An import competes with nobody for its answers, and its calls wait in long queues. */
const STORE_TIMEOUT_MS = 60_000;

async function importInto(
  { store: url, namespace }: { readonly store: string; readonly namespace: string },
  run: Omit<ImportRun, "write">,
): Promise<ImportReport> {
  const store = await openStore(url);
  const claims = createClaims({
    store,
    namespace,
    storeTimeoutMs: STORE_TIMEOUT_MS,
    leaseMs: STORE_TIMEOUT_MS,
    purgeEveryMs: 0,
  });
  try {
    return await runImport({ ...run, write: createWriter(claims, namespace) });
  } finally {
    await claims.close();
    await store.close();
  }
}

function toResult({ counts, problems, isStopped }: ImportReport, isDryRun: boolean): CommandResult {
  return {
    exit: isComplete(counts) && !isStopped ? EXIT.ok : EXIT.failed,
    data: { ...counts, problems, dryRun: isDryRun, stopped: isStopped },
    lines: [...countLines(counts, isDryRun), verdictLine(counts, { isDryRun, isStopped })],
    remarks: problems.map(({ key, reason }) => `${plain(key)}: ${plain(reason)}`),
  };
}
