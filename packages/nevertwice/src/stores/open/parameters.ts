/** The parameters of a store's URL: how ours are read, and which ones of the driver are passed on. */
import { didYouMean } from "../../core/did-you-mean.ts";
import { isCutByPassword, malformed, type StoreUrl, urlError } from "./store-url.ts";

/** What a URL says about connections, in one form for all drivers. */
export interface ConnectionParameters {
  /** The largest number of connections of the pool; undefined: the driver's default. */
  readonly poolSize?: number | undefined;
  /** How long to wait for a new connection, and for a free one. */
  readonly connectTimeoutMs: number;
  /** How long a connection may be idle before the pool closes it; undefined: the driver's default. */
  readonly idleTimeoutMs?: number | undefined;
  /** The name that the database shows for these connections. */
  readonly applicationName?: string | undefined;
}

const CONNECT_MS = 5_000;
const MAX_POOL = 10_000;
const MAX_MS = 2 ** 31 - 1;

const POOL_PARAMETERS = ["poolSize", "connectTimeoutMs", "idleTimeoutMs", "applicationName"];

export function connectionParameters(url: StoreUrl): ConnectionParameters {
  return {
    poolSize: wholeNumber(url, "poolSize", MAX_POOL),
    connectTimeoutMs: wholeNumber(url, "connectTimeoutMs", MAX_MS) ?? CONNECT_MS,
    idleTimeoutMs: wholeNumber(url, "idleTimeoutMs", MAX_MS),
    applicationName: url.take("applicationName"),
  };
}

/** A whole number of at least 1; undefined if the URL does not have the parameter. */
export function wholeNumber(url: StoreUrl, name: string, most = MAX_MS): number | undefined {
  const value = url.take(name);
  if (value === undefined) return undefined;
  if (/^[1-9]\d{0,9}$/.test(value) && Number(value) <= most) return Number(value);
  throw urlError(url, `has ${name}=${value}; it must be a whole number from 1 to ${most}`);
}

export interface KnownParameters {
  /** The package that gets the rest of the URL. */
  readonly driver?: string;
  /** Parameters of ours, for the suggestion: they were taken from the URL before. */
  readonly ours: readonly string[];
  /** Parameters that the driver reads. One that it ignores, or that changes the form of its answers, is not among them. */
  readonly passed?: readonly string[];
  /** What to write instead of a parameter of another library. */
  readonly instead?: Readonly<Record<string, string>>;
}

export const SQLITE: KnownParameters = { ours: ["synchronous", "exclusive"] };

export const POSTGRES: KnownParameters = {
  driver: "pg",
  ours: ["prepare", "subscriber", ...POOL_PARAMETERS],
  passed: [
    "host",
    "port",
    "user",
    "password",
    "database",
    "ssl",
    "sslmode",
    "sslcert",
    "sslkey",
    "sslrootcert",
    "sslnegotiation",
    "uselibpqcompat",
    // pg ignores it, and connection strings of hosted databases contain it.
    "channel_binding",
    "application_name",
    "fallback_application_name",
    "options",
    "client_encoding",
    "statement_timeout",
    "lock_timeout",
    "query_timeout",
    "idle_in_transaction_session_timeout",
  ],
  instead: {
    max: "poolSize",
    pool_size: "poolSize",
    connection_limit: "poolSize",
    connect_timeout: "connectTimeoutMs",
    pool_timeout: "connectTimeoutMs",
    idle_timeout: "idleTimeoutMs",
    pgbouncer: "prepare=false",
    schema: "options=-c%20search_path%3DNAME",
  },
};

export const MYSQL: KnownParameters = {
  driver: "mysql2",
  ours: POOL_PARAMETERS,
  passed: [
    "ssl",
    "charset",
    "timezone",
    "compress",
    "localAddress",
    "socketPath",
    "enableKeepAlive",
    "keepAliveInitialDelay",
    "enableCleartextPlugin",
    "insecureAuth",
    "disableEval",
    "maxPreparedStatements",
    "connectionLimit",
    "maxIdle",
    "idleTimeout",
    "queueLimit",
    "waitForConnections",
  ],
  instead: {
    max: "poolSize",
    connection_limit: "poolSize",
    connect_timeout: "connectTimeoutMs",
    connectTimeout: "connectTimeoutMs",
    "ssl-mode": 'ssl={"rejectUnauthorized":true}',
    sslmode: 'ssl={"rejectUnauthorized":true}',
  },
};

export const REDIS: KnownParameters = {
  driver: "ioredis",
  ours: ["prefix", "replicas", "connectTimeoutMs", "applicationName"],
  // The driver takes the other options of a URL as text, also where it needs a number or a boolean.
  passed: ["db", "family", "connectionName"],
  instead: { keyPrefix: "prefix", connectTimeout: "connectTimeoutMs" },
};

/** Refuses what nobody reads: a misspelt parameter would silently leave its default in force. */
export function refuseUnknown(url: StoreUrl, known: KnownParameters): void {
  const { driver, ours, passed = [], instead = {} } = known;
  for (const name of url.names()) {
    if (passed.includes(name)) continue;
    if (isCutByPassword(url)) throw malformed(url);
    const other = Object.hasOwn(instead, name) ? ` Use ${instead[name]}.` : "";
    const readers =
      driver === undefined ? "nevertwice does not know" : `neither nevertwice nor ${driver} reads`;
    const hint = other || didYouMean(name, [...ours, ...passed]) || allowedNames(ours);
    throw urlError(url, `has the parameter ${JSON.stringify(name)}, which ${readers}`, hint);
  }
}

function allowedNames(ours: readonly string[]): string {
  return ours.length === 0 ? " It takes no parameters." : ` Parameters of nevertwice: ${ours.join(", ")}.`;
}
