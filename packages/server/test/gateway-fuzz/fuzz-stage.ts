/** A gateway process in front of a service, optionally with nginx between them, that is started again after a crash. */
import type { TestContext } from "vitest";
import { IS_FULL } from "../../../nevertwice/test/scale/sizes.ts";
import { startNginx } from "../../../nevertwice/test/services/nginx.ts";
import { installMissing } from "../../../nevertwice/test/services/packages.ts";
import { startFor } from "../../../nevertwice/test/services/services.ts";
import { type GatewayProcess, startGateway } from "./gateway-process.ts";

export type Behind = "node:http" | "nginx";

export interface FuzzStage {
  gateway(): GatewayProcess;
  restart(): Promise<void>;
  stop(): void;
}

/** How long the gateway waits for the rest of a broken request. In `npm test`, a busy machine needs longer for correct ones. */
export const LIMIT_MS = IS_FULL ? 1_000 : 3_000;

/** Small limits, so that cases reach them. */
const SETTINGS = {
  upstreamTimeout: LIMIT_MS,
  headTimeout: LIMIT_MS,
  bodyTimeout: LIMIT_MS,
  maxConnections: 300,
  maxConnectionsPerAddress: 250,
  maxBufferedBytes: 8 * 1_048_576,
};

/** The paths of the rules, as nginx reads them. */
const LOCATIONS = { payments: "^/payments(/|$)", orders: "^/orders/?$" };

export async function startFuzzStage(upstreamPort: number): Promise<FuzzStage> {
  let gateway = await startGateway({ upstreamPort, settings: SETTINGS });
  return {
    gateway: () => gateway,
    async restart() {
      gateway.stop();
      gateway = await startGateway({ upstreamPort, settings: SETTINGS });
    },
    stop: () => gateway.stop(),
  };
}

export interface FuzzStageHow {
  readonly behind: Behind;
  readonly servicePort: number;
  /** Whether nginx is in between; false if the service sends unexpected bytes. */
  readonly keepsConnections: boolean;
}

/** The same for one test, which is skipped if it needs nginx and nginx is not installed. */
export async function fuzzStageFor(context: TestContext, how: FuzzStageHow): Promise<FuzzStage> {
  const { behind, servicePort, keepsConnections } = how;
  let upstreamPort = servicePort;
  if (behind === "nginx") {
    await installMissing(["nginx"]);
    const nginx = await startFor(context, () =>
      startNginx({ upstreamPort: servicePort, locations: LOCATIONS, keepsConnections }),
    );
    upstreamPort = nginx.port;
  }
  const stage = await startFuzzStage(upstreamPort);
  context.onTestFinished(() => stage.stop());
  return stage;
}
