/** A route of the gateway in a region: it judges the owner of a request, and forwards the request if the owner's home is elsewhere. */
import type { IncomingMessage } from "node:http";
import type { BufferedBytes } from "../gateway/buffered-bytes.ts";
import { disagreeingError } from "../gateway/gateway-errors.ts";
import type { ScopeRule } from "../gateway/gateway-rules.ts";
import type { GuardedListener } from "../gateway/guarded-listener.ts";
import type { Scope } from "../gateway/scope.ts";
import { HomeElsewhere } from "./home-elsewhere.ts";
import type { Regions } from "./regions.ts";

export interface RegionRoute {
  readonly scope: Scope;
  /** Called for a request with a key, after `scope` and before the key is claimed. */
  readonly authorize: (req: IncomingMessage) => Promise<boolean>;
  /** The listener, which forwards what `authorize` found to be at home elsewhere. */
  forwarding(listener: GuardedListener, buffered: BufferedBytes): GuardedListener;
}

/** In the home map and in marks: the owner of keys that belong to every client. */
const ANYONE = "";

export function createRegionRoute(regions: Regions, rule: ScopeRule, scope: Scope): RegionRoute {
  const owners = new WeakMap<IncomingMessage, string>();

  async function judge(req: IncomingMessage): Promise<string> {
    const hop = regions.findHop(req);
    const owner =
      hop === undefined || typeof rule !== "object" || !("certificate" in rule)
        ? await ownScope(req)
        : certificateOwner(hop.scope, rule.certificate);
    if (hop !== undefined && hop.scope !== owner) throw disagreeingError("the owner");
    owners.set(req, owner);
    return owner;
  }

  const ownScope = async (req: IncomingMessage): Promise<string> =>
    scope === "anyone" ? ANYONE : scope(req);

  return {
    scope: scope === "anyone" ? scope : judge,
    async authorize(req) {
      await regions.checkHome(req, owners.get(req) ?? (await judge(req)));
      return true;
    },
    forwarding: (listener, buffered) => async (req, res) => {
      try {
        await listener(req, res);
      } catch (error) {
        if (!(error instanceof HomeElsewhere)) throw error;
        buffered.stopCounting(req);
        await regions.forward(req, res, error);
      }
    },
  };
}

/** The client's certificate was shown to the gateway that the client called, which has signed its name. */
function certificateOwner(signed: string, what: string): string {
  if (signed.startsWith(`certificate:${what}:`)) return signed;
  throw disagreeingError("the owner");
}
