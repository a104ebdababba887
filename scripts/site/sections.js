/** The order of the site: its sections, and the page of each entry. A page that does not exist yet has no entry. */

/** @typedef {{ text: string, page: string }} Entry `page` is a path of the repository, or of a generated page */
/** @typedef {{ text: string, entries: readonly Entry[] }} Section `Guides: HTTP` is the part `HTTP` of the section `Guides` */

export const FIRST_PAGE = "docs/index.md";
export const HTTP_API_PAGE = "docs/http-api.md";
const API_PAGE = "docs/api/imports.md";

/**
 * @param {string} text
 * @param {string} page
 * @returns {Entry}
 */
const entry = (text, page) => ({
  text,
  page: page.includes("/") || /^[A-Z]/.test(page) ? page : `docs/${page}.md`,
});

/** @type {readonly Section[]} */
const SECTIONS = [
  {
    text: "Start",
    entries: [
      entry("Install", "install"),
      entry("Five minutes", "five-minutes"),
      entry("Express and Redis", "express-redis"),
      entry("Which door do I need?", "doors"),
      entry("Examples", "examples/README.md"),
    ],
  },
  {
    text: "Guides: HTTP",
    entries: [
      entry("HTTP", "http"),
      entry("How requests are read", "http-requests"),
      entry("Limits on callers", "http-quota"),
      entry("Notes by framework", "http-frameworks"),
      entry("Profiles: Stripe and others", "profiles"),
      entry("GraphQL", "graphql"),
      entry("tRPC", "trpc"),
      entry("Forms", "forms"),
      entry("Web frameworks", "recipes-web"),
      entry("Client", "client"),
      entry("Your clients and SDKs", "clients"),
      entry("Testing your endpoint", "testing"),
    ],
  },
  {
    text: "Guides: Functions and jobs",
    entries: [
      entry("Functions", "functions"),
      entry("Transactions", "exactly-once"),
      entry("Steps", "steps"),
      entry("Sagas", "sagas"),
      entry("Jobs", "jobs"),
      entry("Locks", "locks"),
      entry("Protect", "protect"),
      entry("Flapping", "flapping"),
      entry("Outbox", "outbox"),
      entry("Sealing", "sealing"),
    ],
  },
  {
    text: "Guides: Messages, webhooks, agents",
    entries: [
      entry("Events", "events"),
      entry("RabbitMQ and NATS", "brokers"),
      entry("Redis Streams, BullMQ, Kafka", "brokers-streams"),
      entry("SQS and Lambda", "brokers-aws"),
      entry("Other queues", "recipes-queues"),
      entry("Webhooks", "webhooks"),
      entry("Agents", "agents"),
      entry("Other agent frameworks, A2A", "agents-frameworks"),
    ],
  },
  {
    text: "Guides: Holds and pipelines",
    entries: [
      entry("Reservations", "reservations"),
      entry("In your own transaction", "reservations-transactions"),
      entry("Stores of reservations", "reservations-stores"),
      entry("Expiry, erasure, crashes", "reservations-life"),
      entry("Audit", "audit"),
      entry("Pipelines", "pipeline"),
      entry("Running pipelines", "pipeline-running"),
      entry("The pipeline command", "pipeline-command"),
      entry("Stateless handlers", "stateless-handlers"),
    ],
  },
  {
    text: "Guides: Server and edge",
    entries: [
      entry("Running the server", "server"),
      entry("Gateway", "gateway"),
      entry("Gateway: failures", "gateway-failures"),
      entry("Gateway: limits and settings", "gateway-limits"),
      entry("Proxies around the gateway", "proxies"),
      entry("Holds on the server", "server-holds"),
      entry("Fleets", "fleets"),
      entry("Workers and edge", "edge"),
      entry("Bundlers", "bundlers"),
    ],
  },
  {
    text: "Concepts",
    entries: [
      entry("The life of a key", "lifecycle"),
      entry("Claims, leases, fences, tokens", "claims"),
      entry("Exactly once, said honestly", "honest"),
      entry("Why not just a unique index", "unique-index"),
      entry("Clocks", "clocks"),
      entry("Guarantees", "guarantees"),
      entry("How it is proven", "proof"),
      entry("Glossary", "glossary"),
    ],
  },
  {
    text: "Operate",
    entries: [
      entry("Production checklist", "production"),
      entry("Choosing a store", "stores"),
      entry("Durability and the doctor", "durability"),
      entry("Memory and SQLite", "stores-sqlite"),
      entry("Postgres and MySQL", "stores-sql"),
      entry("Redis and Upstash", "stores-redis"),
      entry("DynamoDB and etcd", "stores-dynamodb"),
      entry("Durable Objects and D1", "stores-cloudflare"),
      entry("Stores, measured", "stores-measured"),
      entry("Lists, steps and history", "records"),
      entry("Scale and capacity", "scale"),
      entry("Regions", "regions"),
      entry("Prove a deployment", "prove"),
      entry("Dashboard", "dashboard"),
      entry("Telemetry", "telemetry"),
      entry("Metrics and alerts", "metrics"),
      entry("Backup", "backup"),
      entry("Upgrade and roll back", "upgrade"),
      entry("Security", "security"),
      entry("Report a vulnerability", "SECURITY.md"),
    ],
  },
  {
    text: "Reference",
    entries: [
      entry("Options", "options"),
      entry("Errors", "errors"),
      entry("Command line", "cli"),
      entry("HTTP API", "server-api"),
      entry("HTTP API: every operation", HTTP_API_PAGE),
      entry("Access and server settings", "server-access"),
      entry("API of the library", API_PAGE),
      entry("Runtimes", "runtimes"),
      entry("Conformance", "conformance"),
    ],
  },
  {
    text: "Compare and move",
    entries: [
      entry("Scoreboard", "scoreboard"),
      entry("Benchmarks", "benchmarks"),
      entry("Museum", "museum"),
      entry("Track record", "track-record"),
      entry("Import keys", "import"),
      entry("From steadykey", "moving-from-steadykey"),
      entry("From @node-idempotency", "moving-from-node-idempotency"),
      entry("From Powertools", "moving-from-powertools"),
      entry("From express-idempotency", "moving-from-express-idempotency"),
      entry("From idempo", "moving-from-idempo"),
      entry("From Baldur", "moving-from-baldur"),
      entry("What Baldur can do", "baldur-capabilities"),
      entry("From Bloccs", "moving-from-bloccs"),
      entry("From Grace", "moving-from-grace"),
    ],
  },
  {
    text: "Contribute",
    entries: [
      entry("Architecture", "ARCHITECTURE.md"),
      entry("Contributing", "CONTRIBUTING.md"),
      entry("Deprecation policy", "deprecation"),
      entry("Changes", "CHANGELOG.md"),
    ],
  },
];

/** Pages that a script writes while the site is built. */
const GENERATED = [HTTP_API_PAGE, API_PAGE];

/**
 * The pages of `docs/` that no section names: a reader would not find them.
 *
 * @param {readonly { path: string }[]} files
 */
export function sidebarProblems(files) {
  const named = SECTIONS.flatMap(({ entries }) => entries.map(({ page }) => page));
  const pages = files.filter(({ path }) => /^docs\/[^/]+\.md$/.test(path) && path !== FIRST_PAGE);
  return [
    ...pages
      .filter(({ path }) => !named.includes(path))
      .map(({ path }) => `${path}: no section of scripts/site/sections.js names this page`),
    ...named
      .filter((page, index) => named.indexOf(page) !== index)
      .map((page) => `scripts/site/sections.js names ${page} twice`),
  ];
}

/**
 * The sections with the entries whose page exists.
 *
 * @param {ReadonlySet<string>} pages
 * @returns {readonly Section[]}
 */
export function shownSections(pages) {
  return SECTIONS.map((section) => ({
    ...section,
    entries: section.entries.filter(({ page }) => pages.has(page) || GENERATED.includes(page)),
  })).filter(({ entries }) => entries.length > 0);
}
