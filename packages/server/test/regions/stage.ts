/** Two regions, eu and us, each with a gateway, a store and a service, and a cuttable network between the gateways. */
import type { IncomingMessage } from "node:http";
import type { Store } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";
import { onTestFinished } from "vitest";
import { freePort } from "../../../nevertwice/test/services/ports.ts";
import { type FaultProxy, startProxy } from "../../../nevertwice/test/services/proxy.ts";
import type { ServerConfig } from "../../src/config.ts";
import type { HomeMap } from "../../src/regions/home-map.ts";
import { createHomeMapLogs, type HomeMapLogs } from "../../src/regions/home-map-logs.ts";
import { gatewayBefore, read, type Stage, serviceOn } from "../gateway/stage.ts";

export const SECRET = "the secret that both regions of the tests share";
export const REGION_NAMES = ["eu", "us"] as const;
export type RegionName = (typeof REGION_NAMES)[number];

/** What a service was asked. */
export interface Effect {
  readonly region: RegionName;
  readonly method: string;
  readonly url: string;
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

export interface Regions {
  readonly gateways: Readonly<Record<RegionName, Stage>>;
  readonly stores: ReadonlyMap<string, Store>;
  readonly logs: HomeMapLogs;
  /** The network to the gateway of a region, as the other one reaches it. */
  readonly network: Readonly<Record<RegionName, FaultProxy>>;
  /** The effects of both services, in their order. */
  readonly effects: readonly Effect[];
}

export interface RegionsOptions {
  readonly config?: Partial<ServerConfig>;
  readonly stores?: Readonly<Record<RegionName, Store>>;
  /** The first home map; default: every owner is at home in eu. */
  readonly map?: HomeMap | null;
  /** Called before a service answers. */
  readonly onRequest?: (req: IncomingMessage) => Promise<void>;
}

export const EVERYONE_IN_EU: HomeMap = { version: 1, default: "eu", homes: {}, frozen: {} };

export async function startRegions(options: RegionsOptions = {}): Promise<Regions> {
  const { config, map = EVERYONE_IN_EU, onRequest } = options;
  const given = options.stores ?? { eu: memoryStore(), us: memoryStore() };
  const stores = new Map<string, Store>(Object.entries(given));
  const logs = createHomeMapLogs(stores);
  if (map !== null) await logs.publish(map);
  const effects: Effect[] = [];
  const ports = { eu: await freePort(), us: await freePort() };
  const network = { eu: await startProxy(ports.eu), us: await startProxy(ports.us) };
  onTestFinished(async () => {
    await Promise.all([network.eu.stop(), network.us.stop(), logs.close()]);
  });

  async function start(region: RegionName, other: RegionName): Promise<Stage> {
    const service = await serviceOn(async (req, res) => {
      const body = await read(req);
      const { method = "", url = "", rawHeaders } = req;
      effects.push({ region, method, url, rawHeaders, body });
      await onRequest?.(req);
      res.writeHead(201, { "content-type": "application/json" }).end(`{"effect":${effects.length}}`);
    });
    return gatewayBefore(
      service,
      {
        gatewayScope: { header: "x-tenant" },
        gatewayListen: { host: "127.0.0.1", port: ports[region] },
        region,
        regionGateway: [{ name: other, url: `http://127.0.0.1:${network[other].port}` }],
        regionSecret: SECRET,
        ...config,
      },
      given[region],
    );
  }

  const gateways = { eu: await start("eu", "us"), us: await start("us", "eu") };
  return { gateways, stores, logs, network, effects };
}

/** The value of a header that a service got. */
export function headerOf({ rawHeaders }: Effect, name: string): string | undefined {
  const at = rawHeaders.findIndex((text, index) => index % 2 === 0 && text.toLowerCase() === name);
  return at < 0 ? undefined : rawHeaders[at + 1];
}
