/** The faults of the table, in its order. */
import { busy } from "./busy.ts";
import { cutAfter } from "./cut-after.ts";
import { cutBefore } from "./cut-before.ts";
import type { Fault } from "./fault.ts";
import { gatewayKilledAfter } from "./gateway-killed-after.ts";
import { gatewayKilledBefore } from "./gateway-killed-before.ts";
import { keyless } from "./keyless.ts";
import { keylessLost } from "./keyless-lost.ts";
import { killedAfter } from "./killed-after.ts";
import { killedBefore } from "./killed-before.ts";
import { longWork } from "./long-work.ts";
import { longWorkCut } from "./long-work-cut.ts";
import { lostAfter } from "./lost-after.ts";
import { lostBefore } from "./lost-before.ts";
import { mismatch } from "./mismatch.ts";
import { noFault } from "./no-fault.ts";
import { unkept } from "./unkept.ts";

export const FAULTS: readonly Fault[] = [
  noFault,
  cutBefore,
  cutAfter,
  unkept,
  longWork,
  longWorkCut,
  busy,
  mismatch,
  killedBefore,
  killedAfter,
  gatewayKilledBefore,
  gatewayKilledAfter,
  lostBefore,
  lostAfter,
  keyless,
  keylessLost,
];
