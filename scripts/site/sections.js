/** The order of the site: its sections, and the page of each entry. A page that does not exist yet has no entry. */

/** @typedef {{ text: string, page: string }} Entry `page` is a path of the repository, or of a generated page */
/** @typedef {{ text: string, entries: readonly Entry[] }} Section */

export const FIRST_PAGE = "docs/index.md";
export const HTTP_API_PAGE = "docs/http-api.md";
export const API_PAGE = "docs/api/index.md";

/**
 * @param {string} text
 * @param {string} page
 * @returns {Entry}
 */
const entry = (text, page) => ({ text, page: page.includes("/") || /^[A-Z]/.test(page) ? page : `docs/${page}.md` });

/** @type {readonly Section[]} */
export const SECTIONS = [
  {
    text: "Start",
    entries: [
      entry("Install", "install"),
      entry("Five minutes", "five-minutes"),
      entry("Express and Redis", "express-redis"),
      entry("Which door do I need?", "doors"),
    ],
  },
  {
    text: "Guides: HTTP",
    entries: [
      entry("HTTP", "http"),
      entry("Profiles: Stripe and others", "profiles"),
      entry("Client", "client"),
      entry("Your clients and proxies", "clients"),
      entry("What retrying clients do", "clients-measured"),
      entry("GraphQL", "graphql"),
      entry("tRPC", "trpc"),
      entry("Forms", "forms"),
      entry("Web frameworks", "recipes-web"),
      entry("Testing your endpoint", "testing"),
    ],
  },
  {
    text: "Guides: work",
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
    text: "Guides: messages",
    entries: [
      entry("Events", "events"),
      entry("Brokers", "brokers"),
      entry("Brokers: streams and SQS", "brokers-streams"),
      entry("Queues", "recipes-queues"),
      entry("Webhooks", "webhooks"),
      entry("Agents", "agents"),
      entry("Agents: A2A", "agents-a2a"),
    ],
  },
  {
    text: "Guides: holds and pipelines",
    entries: [
      entry("Reservations", "reservations"),
      entry("Reservations in your database", "reservations-stores"),
      entry("Audit", "audit"),
      entry("Pipelines", "pipeline"),
      entry("The pipeline command", "pipeline-command"),
      entry("Stateless handlers", "stateless-handlers"),
    ],
  },
  {
    text: "Guides: server and edge",
    entries: [
      entry("Server", "server"),
      entry("Gateway", "gateway"),
      entry("Gateway: limits and settings", "gateway-limits"),
      entry("Proxies and the gateway", "proxies"),
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
      entry("Guarantees", "guarantees"),
      entry("How it is proven", "proof"),
      entry("Clocks", "clocks"),
      entry("Exactly once, said honestly", "honest"),
      entry("Why not just a unique index", "unique-index"),
      entry("Glossary", "glossary"),
    ],
  },
  {
    text: "Operate",
    entries: [
      entry("Production checklist", "production"),
      entry("Choosing a store", "stores"),
      entry("Durability and the doctor", "durability"),
      entry("SQLite and memory", "stores-sqlite"),
      entry("Postgres and MySQL", "stores-sql"),
      entry("Redis and Upstash", "stores-redis"),
      entry("DynamoDB and etcd", "stores-dynamodb"),
      entry("Cloudflare", "stores-cloudflare"),
      entry("Scale and capacity", "scale"),
      entry("Regions", "regions"),
      entry("Prove a deployment", "prove"),
      entry("Dashboard", "dashboard"),
      entry("Metrics and alerts", "telemetry"),
      entry("Backup", "backup"),
      entry("Upgrade", "upgrade"),
      entry("Import", "import"),
      entry("Security", "security"),
      entry("Report a vulnerability", "SECURITY.md"),
    ],
  },
  {
    text: "Reference",
    entries: [
      entry("Options", "options"),
      entry("Options of stores and environment", "options-stores"),
      entry("Errors", "errors"),
      entry("Command line", "cli"),
      entry("HTTP API", "server-api"),
      entry("HTTP API, every operation", HTTP_API_PAGE),
      entry("Access and settings of the server", "server-access"),
      entry("Runtimes", "runtimes"),
      entry("Conformance", "conformance"),
      entry("API of the library", API_PAGE),
    ],
  },
  {
    text: "Compare and move",
    entries: [
      entry("Scoreboard", "scoreboard"),
      entry("Benchmarks", "benchmarks"),
      entry("Museum", "museum"),
      entry("Track record", "track-record"),
      entry("From steadykey", "moving-from-steadykey"),
      entry("From @node-idempotency", "moving-from-node-idempotency"),
      entry("From Powertools", "moving-from-powertools"),
      entry("From express-idempotency", "moving-from-express-idempotency"),
      entry("From idempo", "moving-from-idempo"),
      entry("From Baldur", "moving-from-baldur"),
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
