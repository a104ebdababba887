/** Checks that the documents equal the code: error codes, options with their defaults, guarantees. It also runs the examples. */
import { readdir, readFile } from "node:fs/promises";
import { ROOT } from "./command.js";
import { BALDUR, BLOCCS, capabilitiesPageProblems, GRACE, IDEMPO, SKILL } from "./docs/capabilities-page.js";
import { conformancePageProblems } from "./docs/conformance-page.js";
import { environmentProblems } from "./docs/environment.js";
import { errorsPageProblems } from "./docs/errors-page.js";
import { exampleProblems, examplesOf } from "./docs/examples.js";
import { codeHeadingsOf, nameDifferences, sectionOf, tableRowsOf } from "./docs/markdown.js";
import { defaultTagProblems, optionCommentProblems } from "./docs/option-comments.js";
import { defaultCell, interfaceMembers, optionsPageProblems } from "./docs/options-page.js";
import { shownFileProblems, shownFiles } from "./docs/shown-files.js";
import { readTestFiles } from "./docs/test-titles.js";
import { loadedSubpaths } from "./matrix/packed.js";
import { tableProblems } from "./matrix/table.js";

const PACKAGE = `${ROOT}packages/nevertwice`;

export async function docsProblems() {
  const pages = await readPages();
  const { ERROR_CODES } = await import("../packages/nevertwice/build/core/errors.js");
  const { GUARANTEES } = await import("../packages/nevertwice/build/testing/index.js");
  const { VARIABLES } = await import("../packages/nevertwice/build/env/variables.js");
  const settings = await import("../packages/server/dist/src/server-settings.js");
  const manifest = JSON.parse(await readFile(`${PACKAGE}/package.json`, "utf8"));
  const sections = await optionSections();
  const tests = await readTestFiles();

  /** @type {Readonly<Record<string, (markdown: string) => readonly string[]>>} */
  const judges = {
    "docs/errors.md": (markdown) => errorsPageProblems(markdown, ERROR_CODES),
    "docs/options.md": (markdown) => [
      ...optionsPageProblems("docs/options.md", markdown, sections),
      ...environmentProblems(markdown, VARIABLES),
    ],
    "docs/guarantees.md": (markdown) => guaranteesPageProblems(markdown, GUARANTEES),
    "docs/conformance.md": (markdown) => conformancePageProblems(markdown, tests),
    "docs/baldur-capabilities.md": (markdown) => capabilitiesPageProblems(BALDUR, markdown, tests),
    "docs/moving-from-idempo.md": (markdown) => capabilitiesPageProblems(IDEMPO, markdown, tests),
    "docs/moving-from-grace.md": (markdown) => capabilitiesPageProblems(GRACE, markdown, tests),
    "docs/moving-from-bloccs.md": (markdown) => capabilitiesPageProblems(BLOCCS, markdown, tests),
    "docs/stateless-handlers.md": (markdown) => capabilitiesPageProblems(SKILL, markdown, tests),
    "docs/runtimes.md": (markdown) => tableProblems(markdown, loadedSubpaths(manifest).length),
    "docs/server-access.md": (markdown) => serverSettingsProblems(markdown, settings),
  };
  const untrue = Object.entries(judges).flatMap(([path, judge]) => {
    const page = pages.find((candidate) => candidate.path === path);
    return page === undefined ? [`${path} is missing`] : judge(page.markdown);
  });
  const doors = await doorSections();
  const misstated = pages.flatMap(({ path, markdown }) =>
    optionsPageProblems(path, markdown, doors[path] ?? []),
  );
  const examples = pages.flatMap(({ path, markdown }) => examplesOf(path, markdown));
  const shown = pages.flatMap(({ path, markdown }) => shownFiles(path, markdown));
  return [
    ...untrue,
    ...misstated,
    ...defaultTagProblems([...sections, ...Object.values(doors).flat()]),
    ...(await optionsWithoutComment()),
    ...(await shownFileProblems(shown)),
    ...(await exampleProblems(examples)),
  ];
}

/** Of the options that most users set: an editor shows their comments. */
async function optionsWithoutComment() {
  const { POLICY_DEFAULTS } = await import("../packages/nevertwice/build/core/policy.js");
  const { GUARD_DEFAULTS } = await import("../packages/nevertwice/build/core/engine.js");
  const { HTTP_DEFAULTS } = await import("../packages/nevertwice/build/http/options.js");
  const { FETCH_DEFAULTS } = await import("../packages/nevertwice/build/client/fetch-options.js");
  const { maxWaiting, documentation, ...http } = HTTP_DEFAULTS;
  /** @type {readonly (readonly [file: string, name: string, defaults: Readonly<Record<string, unknown>>])[]} */
  const interfaces = [
    ["core/policy.ts", "Policy", { ...POLICY_DEFAULTS }],
    ["core/engine.ts", "GuardOptions", GUARD_DEFAULTS],
    ["http/options.ts", "HttpOptions", http],
    ["http/options.ts", "WaitingLimits", maxWaiting],
    ["client/fetch-options.ts", "FetchOptions", FETCH_DEFAULTS],
  ];
  const problems = interfaces.map(async ([file, name, defaults]) =>
    optionCommentProblems(file, await source(file), name, defaults),
  );
  return (await Promise.all(problems)).flat();
}

/**
 * @param {string} markdown
 * @param {readonly string[]} guarantees
 */
export function guaranteesPageProblems(markdown, guarantees) {
  return nameDifferences("docs/guarantees.md", "heading", codeHeadingsOf(markdown), guarantees);
}

/**
 * Every setting of the server has a row with its flag and its variable, and with the sentence of its usage.
 *
 * @param {string} markdown
 * @param {typeof import("../packages/server/src/server-settings.ts")} settings
 */
function serverSettingsProblems(markdown, { flagName, SETTINGS, tomlName, variableName }) {
  const rows = tableRowsOf(sectionOf(markdown, "Settings") ?? "").flatMap(
    ([name = "", flag, variable, , what]) => {
      const line = /^`(\w+)`$/.exec(name)?.[1];
      return line === undefined ? [] : [`${line} ${flag} ${variable} ${what}`];
    },
  );
  const meant = Object.entries(SETTINGS).map(
    ([name, { what }]) => `${tomlName(name)} \`--${flagName(name)}\` \`${variableName(name)}\` ${what}`,
  );
  return nameDifferences("docs/server-access.md, Settings", "row", rows, meant);
}

/** The sections of docs/options.md, each with the interface of its options and their defaults in the build. */
async function optionSections() {
  const { POLICY_DEFAULTS } = await import("../packages/nevertwice/build/core/policy.js");
  const { GUARD_DEFAULTS } = await import("../packages/nevertwice/build/core/engine.js");
  const { HTTP_DEFAULTS } = await import("../packages/nevertwice/build/http/options.js");
  const { SAGA_DEFAULTS } = await import("../packages/nevertwice/build/saga/saga.js");
  const request = await source("core/request.ts");
  const keep = interfaceMembers(request, "KeepOptions");
  return [
    section("The guard", interfaceMembers(await source("core/engine.ts"), "GuardOptions"), GUARD_DEFAULTS),
    {
      heading: "Policies",
      options: Object.entries(POLICY_DEFAULTS).map(([name, value]) => ({
        name,
        default: defaultCell(name, value),
      })),
    },
    section(
      "One call",
      [...interfaceMembers(request, "Subject"), ...keep, ...interfaceMembers(request, "RunRequest")],
      {},
    ),
    section(
      "A wrapped function",
      [...interfaceMembers(await source("functions/wrap.ts"), "WrapOptions"), ...keep],
      {},
    ),
    section("A saga", interfaceMembers(await source("saga/saga.ts"), "SagaRequest"), {
      retry: { text: `\`{ max: ${SAGA_DEFAULTS.retry.max} }\`` },
      undoRetry: { text: `\`{ max: ${SAGA_DEFAULTS.undoRetry.max} }\`` },
    }),
    section("The HTTP layer", interfaceMembers(await source("http/options.ts"), "HttpOptions"), {
      ...HTTP_DEFAULTS,
      clock: SYSTEM_CLOCK,
    }),
    ...(await storeSections()),
  ];
}

/**
 * The options of the parts of the library that have their own page.
 *
 * @returns {Promise<Readonly<Record<string, readonly import("./docs/options-page.js").Section[]>>>}
 */
async function doorSections() {
  const { FLAPPING_DEFAULTS } = await import("../packages/nevertwice/build/functions/flapping.js");
  const { CONSUMER_DEFAULTS } = await import("../packages/nevertwice/build/events/consumer-options.js");
  const { WEBHOOK_DEFAULTS } = await import("../packages/nevertwice/build/events/webhook.js");
  const { PIPELINE_DEFAULTS } = await import("../packages/nevertwice/build/pipeline/pipeline-options.js");
  const { AUDIT_DEFAULTS } = await import("../packages/nevertwice/build/reservations/audit.js");
  const { RESERVATION_DEFAULTS } = await import("../packages/nevertwice/build/reservations/reservations.js");
  const { OUTBOX_DEFAULTS, RELAY_DEFAULTS } = await import("../packages/nevertwice/build/outbox/index.js");
  const { TRPC_DEFAULTS } = await import("../packages/nevertwice/build/http/trpc.js");
  const { NEST_MODULE_DEFAULTS } = await import("../packages/nevertwice/build/http/nest-module.js");
  const nest = await source("http/nest-module.ts");
  const protect = await source("functions/protect/options.ts");
  const window = await source("stores/redis/window.ts");
  const batch = await source("core/batch.ts");
  const telemetry = await source("telemetry/index.ts");
  const guards = { text: "as the guard" };
  return {
    "docs/http-frameworks.md": [
      section("Nest", interfaceMembers(nest, "NestModuleOptions"), NEST_MODULE_DEFAULTS),
    ],
    "docs/protect.md": [
      section(
        "Options of `protect` and `tryProtect`",
        [...interfaceMembers(protect, "ProtectOptions"), ...interfaceMembers(protect, "Protection")],
        {},
      ),
    ],
    "docs/trpc.md": [
      section("Options", interfaceMembers(await source("http/trpc.ts"), "TrpcOptions"), {
        ...TRPC_DEFAULTS,
        operation: { text: "the path of the procedure" },
      }),
    ],
    "docs/jobs.md": [
      section("Many at once", interfaceMembers(batch, "BatchOptions"), {
        concurrency: constantOf(batch, "CONCURRENCY"),
      }),
    ],
    "docs/locks.md": [
      section("Options", interfaceMembers(await source("functions/exclusive.ts"), "ExclusiveOptions"), {
        waitMs: guards,
        leaseMs: guards,
        maxRunMs: guards,
        storeTimeoutMs: guards,
      }),
    ],
    "docs/flapping.md": [
      section("Options", interfaceMembers(await source("functions/flapping.ts"), "FlappingOptions"), {
        ...FLAPPING_DEFAULTS,
        window: { text: "this process's own" },
        clock: SYSTEM_CLOCK,
      }),
      section("One window for many processes", interfaceMembers(window, "RedisWindowOptions"), {
        prefix: constantOf(await source("stores/redis/script-store.ts"), "DEFAULT_PREFIX"),
      }),
    ],
    "docs/telemetry.md": [
      section("Options", interfaceMembers(telemetry, "TelemetryOptions"), {
        meterProvider: { text: "the registered one" },
        meter: { text: "the provider's `nevertwice`" },
        tracerProvider: { text: "the registered one" },
        tracer: { text: "the provider's `nevertwice`" },
        operation: { text: "unchanged" },
        maxOperations: constantOf(telemetry, "MAX_OPERATIONS"),
      }),
    ],
    "docs/events.md": [
      section("Options", interfaceMembers(await source("events/consumer-options.ts"), "ConsumerOptions"), {
        ...CONSUMER_DEFAULTS,
        operation: { text: "the name" },
        fingerprint: { text: "not compared" },
        retry: { text: "`{ max: 0 }`" },
        isPermanent: { text: "never" },
        maxAttempts: { text: "no end" },
      }),
    ],
    "docs/webhooks.md": [
      section(
        "Options",
        [
          ...interfaceMembers(await source("events/webhook.ts"), "WebhookOptions"),
          ...interfaceMembers(await source("events/http-answer.ts"), "AnswerOptions"),
        ],
        {
          ...WEBHOOK_DEFAULTS,
          key: { text: "where the scheme says" },
          toleranceMs: { text: "the scheme's" },
          url: { text: "the request's own" },
          respond: { text: "204" },
          onRejected: { text: '`"refuse"`' },
          clock: SYSTEM_CLOCK,
        },
      ),
    ],
    "docs/pipeline-running.md": [
      section(
        "Options of `start`",
        interfaceMembers(await source("pipeline/pipeline-options.ts"), "PipelineOptions"),
        { ...PIPELINE_DEFAULTS, fetch: { text: "the platform's" }, clock: SYSTEM_CLOCK },
      ),
    ],
    "docs/reservations.md": [
      section(
        "Options",
        interfaceMembers(await source("reservations/reservations.ts"), "ReservationsOptions"),
        RESERVATION_DEFAULTS,
      ),
    ],
    "docs/audit.md": [
      section("Options", interfaceMembers(await source("reservations/audit.ts"), "AuditOptions"), {
        ...AUDIT_DEFAULTS,
        windowsMs: { text: "the configured `windowMs`" },
      }),
    ],
    "docs/outbox.md": [
      section(
        "Options",
        [
          ...interfaceMembers(await source("outbox/database.ts"), "OutboxDatabase"),
          ...interfaceMembers(await source("outbox/outbox.ts"), "OutboxSettings"),
        ],
        { ...OUTBOX_DEFAULTS, schema: { text: "the search_path" }, clock: SYSTEM_CLOCK },
      ),
      section(
        "Options of a relay",
        interfaceMembers(await source("outbox/relay-options.ts"), "RelayOptions"),
        { ...RELAY_DEFAULTS, retry: { text: "from 1 s to 5 min" } },
      ),
    ],
    "docs/sealing.md": [
      section("Options", interfaceMembers(await source("sealing/keyring.ts"), "SealingOptions"), {
        acceptUnsealed: false,
      }),
    ],
  };
}

const SYSTEM_CLOCK = { text: "the system clock" };

/** The options of each store, with the defaults that its file names. */
async function storeSections() {
  const memory = await source("stores/memory.ts");
  const sqlite = await source("stores/sqlite/client.ts");
  const redis = await source("stores/redis.ts");
  const prefix = constantOf(await source("stores/redis/script-store.ts"), "DEFAULT_PREFIX");
  const dynamodb = await source("stores/dynamodb.ts");
  const durableObjects = await source("stores/durable-objects.ts");
  const object = await source("stores/durable-objects/object.ts");
  const etcd = await source("stores/etcd.ts");
  const clock = SYSTEM_CLOCK;
  return [
    section("The memory store", interfaceMembers(memory, "MemoryStoreOptions"), {
      clock,
      maxRecords: constantOf(memory, "MAX_RECORDS"),
    }),
    section("The SQLite store, by its file", interfaceMembers(sqlite, "SqliteFileOptions"), {
      synchronous: "full",
      exclusive: false,
    }),
    section("The SQLite store, by your connection", interfaceMembers(sqlite, "SqliteDatabaseOptions"), {
      clock,
    }),
    section(
      "The Postgres store",
      interfaceMembers(await source("stores/postgres.ts"), "PostgresStoreOptions"),
      { prepare: true },
    ),
    section("The Redis store", interfaceMembers(redis, "RedisStoreOptions"), {
      prefix,
      replicas: 0,
      replicasTimeoutMs: constantOf(redis, "REPLICAS_TIMEOUT_MS"),
    }),
    section("The MySQL store", interfaceMembers(await source("stores/mysql.ts"), "MysqlStoreOptions"), {}),
    section("The DynamoDB store", interfaceMembers(dynamodb, "DynamodbStoreOptions"), {
      clock,
      clockSkewMs: constantOf(dynamodb, "CLOCK_SKEW_MS"),
      readFirst: false,
    }),
    section("The Upstash store", interfaceMembers(await source("stores/upstash.ts"), "UpstashStoreOptions"), {
      prefix,
    }),
    section("The store of Durable Objects", interfaceMembers(durableObjects, "DurableObjectStoreOptions"), {
      shards: constantOf(durableObjects, "SHARDS"),
      name: constantOf(durableObjects, "NAME"),
    }),
    section("The class NevertwiceObject", interfaceMembers(object, "NevertwiceObjectOptions"), {
      clock,
      maxWaiters: constantOf(object, "MAX_WAITERS"),
      maxWaitMs: constantOf(object, "MAX_WAIT_MS"),
    }),
    section("The etcd store", interfaceMembers(etcd, "EtcdStoreOptions"), {
      prefix: constantOf(etcd, "PREFIX"),
      fetch: { text: "the platform's `fetch`" },
      memberTimeoutMs: constantOf(etcd, "MEMBER_TIMEOUT_MS"),
      timeoutMs: constantOf(etcd, "TIMEOUT_MS"),
      clock,
      monotonicClock: { text: "the platform's monotonic clock" },
      clockSkewMs: constantOf(etcd, "CLOCK_SKEW_MS"),
    }),
    section("A store by its URL", interfaceMembers(await source("stores/open.ts"), "OpenStoreOptions"), {
      migrate: true,
    }),
  ];
}

/**
 * @param {string} text of a source file
 * @param {string} name
 * @returns {unknown}
 */
function constantOf(text, name) {
  const value = new RegExp(`^(?:export )?const ${name} = (.+);$`, "m").exec(text)?.[1];
  if (value === undefined) throw new Error(`there is no constant ${name}`);
  return JSON.parse(value.replace(/(?<=\d)_(?=\d)/g, ""));
}

/**
 * @param {string} heading
 * @param {ReturnType<typeof interfaceMembers>} members
 * @param {Readonly<Record<string, unknown>>} defaults
 */
function section(heading, members, defaults) {
  const options = members.map(({ name, isRequired, owner, written }) => ({
    name,
    default: isRequired ? "required" : defaultCell(name, defaults[name]),
    stated: { owner, written, value: isRequired ? undefined : defaults[name] },
  }));
  return { heading, options };
}

/** README.md and the pages of docs that exist. */
async function readPages() {
  const names = (await readdir(`${ROOT}docs`)).filter((name) => name.endsWith(".md"));
  const paths = ["README.md", ...names.map((name) => `docs/${name}`)];
  const pages = paths.map(async (path) => ({
    path,
    markdown: await readFile(ROOT + path, "utf8").catch(() => undefined),
  }));
  return (await Promise.all(pages)).flatMap(({ path, markdown }) =>
    markdown === undefined ? [] : [{ path, markdown }],
  );
}

/** @param {string} path */
function source(path) {
  return readFile(`${PACKAGE}/src/${path}`, "utf8");
}
