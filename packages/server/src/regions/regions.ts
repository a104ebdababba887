/**
 * What a gateway does for regions: it takes marks off requests, finds the home of their owners, forwards requests to it, and has the
 * last word before a request runs here.
 *
 *   request ─▶ its mark is checked ─▶ owner judged ─▶ home here? ──no──▶ forwarded once, to the home ── or 503
 *                                                        │ yes
 *                                                        ▼
 *                      key claimed ─▶ is the home still here, by a read after the claim? ── no ─▶ 503, and the key is free
 *                                                        │ yes
 *                                                        ▼
 *                                                   the service
 *
 * The read after the claim is what makes a move safe without clocks: it saw no freeze, so the claim was in the store before the freeze
 * was, and the move waits for it.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { BlockList } from "node:net";
import { isNevertwiceError, NevertwiceError, type Store } from "nevertwice";
import type { ServerConfig } from "../config.ts";
import { ConfigError } from "../config-error.ts";
import { createProxy, type ReverseProxy } from "../gateway/proxy.ts";
import { createCurrentHomeMap } from "./current-home-map.ts";
import { HomeElsewhere } from "./home-elsewhere.ts";
import { type Home, homeIn } from "./home-map.ts";
import { createHomeMapLog } from "./home-map-log.ts";
import { type Hop, readHop, writeHop } from "./hop.ts";

export interface Regions {
  /** Notes the mark of a request. Throws `not-authorized` if it is not valid. */
  receive(req: IncomingMessage): void;
  /** The valid mark of a request. */
  findHop(req: IncomingMessage): Hop | undefined;
  /** Throws `HomeElsewhere` if another region has to run the request, and `unavailable` if no region may run it now. */
  checkHome(req: IncomingMessage, scope: string): Promise<void>;
  /** The same for a request whose key was claimed, by a read after the claim. Throws `unavailable` if it must not run here. */
  confirmHome(req: IncomingMessage): Promise<void>;
  /** Sends the request to its home, and the answer to the client. Rejects with the error to answer. */
  forward(req: IncomingMessage, res: ServerResponse, elsewhere: HomeElsewhere): Promise<void>;
  close(): Promise<void>;
}

export interface RegionsOptions {
  readonly config: ServerConfig;
  readonly store: Store;
  readonly trusted: BlockList;
  readonly maxConnections: number;
  /** Headers that `Connection` cannot remove, in lower case. */
  readonly kept: ReadonlySet<string>;
}

/** Undefined if the server has no region. Throws a `ConfigError` if the settings do not fit together. */
export function createRegions(options: RegionsOptions): Regions | undefined {
  const { config, store } = options;
  const { region: own, regionSecret: secret = "" } = config;
  if (own === undefined) return undefined;
  const gateways = createGateways(options, own);
  const log = createHomeMapLog(store);
  const maps = createCurrentHomeMap(log);
  const hops = new WeakMap<IncomingMessage, Hop>();
  const owners = new WeakMap<IncomingMessage, string>();

  function checkHere({ region, movesTo }: Home): void {
    if (movesTo !== undefined) throw movingError(movesTo);
    if (region !== own) throw notHereError(region, own as string);
  }

  return {
    receive(req) {
      const hop = readHop(req, secret);
      if (hop === undefined) return;
      if (hop.to !== own) throw notHereError(hop.to, own);
      hops.set(req, hop);
    },

    findHop: (req) => hops.get(req),

    async checkHome(req, scope) {
      const hop = hops.get(req);
      owners.set(req, scope);
      let map = await maps.lately();
      if (hop !== undefined && hop.map > map.version) map = await maps.now();
      if (hop !== undefined && hop.map > map.version) throw olderMapError(map.version, hop);
      const home = homeIn(map, scope);
      if (home.movesTo !== undefined || hop !== undefined) return checkHere(home);
      if (home.region === own) return;
      throw new HomeElsewhere({ region: home.region, scope, mapVersion: map.version });
    },

    async confirmHome(req) {
      checkHere(homeIn(await maps.now(), owners.get(req) ?? ""));
    },

    async forward(req, res, { region, scope, mapVersion }) {
      const gateway = gateways.get(region);
      if (gateway === undefined) throw unreachableError(region, new Error("its gateway is not configured"));
      const hop = writeHop({ from: own, to: region, map: mapVersion, scope }, req, secret);
      try {
        await gateway.forward(req, res, { hop });
      } catch (error) {
        throw asHomeError(error, region);
      }
    },

    async close() {
      for (const gateway of gateways.values()) gateway.close();
      await log.close();
    },
  };
}

function createGateways(options: RegionsOptions, own: string): ReadonlyMap<string, ReverseProxy> {
  const { config, trusted, maxConnections, kept } = options;
  const { regionGateway, regionSecret, regionTimeout, upstreamKeepAlive } = config;
  if (regionSecret === undefined)
    throw new ConfigError("region-secret", undefined, "set together with region: the regions share it");
  const gateways = new Map<string, ReverseProxy>();
  for (const { name, url } of regionGateway) {
    if (name === own || gateways.has(name))
      throw new ConfigError("region-gateway", name, "the name of another region, each named once");
    const proxy = createProxy({
      upstream: url,
      timeoutMs: regionTimeout,
      keepAliveMs: upstreamKeepAlive,
      maxConnections,
      // The home judges the request that this gateway judged, with its Host.
      host: "client",
      trusted,
      kept,
    });
    gateways.set(name, proxy);
  }
  return gateways;
}

/** The home was not asked, or its answer was lost. A retry with the same key finds out, since only the home runs it. */
function asHomeError(error: unknown, region: string): unknown {
  if (isNevertwiceError(error, "upstream-unreachable")) return unreachableError(region, error);
  if (!isNevertwiceError(error, "upstream-lost")) return error;
  const lost = new NevertwiceError(
    "upstream-lost",
    `the answer of the region ${region}, where this key lives, was lost. It is unknown whether the request was carried out there, and it was carried out nowhere else. Send the same request again with the same key.`,
    { cause: error },
  );
  return Object.assign(lost, { retryable: true });
}

function unreachableError(region: string, cause: unknown): NevertwiceError {
  return new NevertwiceError(
    "unavailable",
    `the region ${region}, where this key lives, cannot be reached. Nothing was done; send the same request again later.`,
    { cause },
  );
}

function movingError(region: string): NevertwiceError {
  return new NevertwiceError(
    "unavailable",
    `this owner's keys are being moved to the region ${region}. Nothing was done; send the same request again later.`,
  );
}

function notHereError(region: string, own: string): NevertwiceError {
  return new NevertwiceError(
    "unavailable",
    `this is the region ${own}, and the home of this owner is ${region}; a forwarded request is never forwarded again. Nothing was done; send the same request again later.`,
  );
}

function olderMapError(version: number, { from, map }: Hop): NevertwiceError {
  return new NevertwiceError(
    "unavailable",
    `this region has version ${version} of the home map, and ${from} has version ${map}. Nothing was done; send the same request again later.`,
  );
}
