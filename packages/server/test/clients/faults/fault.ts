/** A fault: what goes wrong with one piece of work, and how its calls may end. */
import type { FaultProxy } from "../../../../nevertwice/test/services/proxy.ts";
import type { Told } from "../client.ts";
import type { LedgerEvent } from "../ledger.ts";
import type { ClientStage, DoorName } from "../stage.ts";

export interface Trial {
  /** The work of the cell. The service reads from it what goes wrong. */
  readonly work: string;
  /** Between the client and the door. */
  readonly network: FaultProxy;
  /** Calls with the key of the cell, and the given work in place of its own. */
  call(work?: string): Promise<Told & { readonly isSuccess: boolean }>;
  /** Calls, and after a failure once more, when the lease of the first call is over. */
  callAgain(): ReturnType<Trial["call"]>;
  /** Resolves once the service has noted the event, or the call is over without it. */
  comesTo(event: LedgerEvent): Promise<void>;
}

export interface Fault {
  /** The name in the table. The names of works contain it without spaces. */
  readonly name: string;
  readonly title: string;
  /** What happens, in a sentence. */
  readonly says: string;
  /** Where it can happen. */
  readonly doors?: readonly DoorName[];
  /** `one answer`: each call succeeds. `no second effect`: it may fail. `named`: it may also have two effects, as the page says. */
  readonly ends: (door: DoorName) => "one answer" | "no second effect" | "named";
  /** Whether the caller sends no key. */
  readonly isKeyless?: true;
  /** Whether the route refuses a request without a key. */
  readonly isRequired?: true;
  /** Whether the service or the gateway is killed, so that no other fault can share it. */
  readonly kills?: true;
  /** Only the whole matrix has time for it. */
  readonly isSlow?: true;
  /** How one call goes. */
  readonly run: (trial: Trial) => ReturnType<Trial["call"]>;
  /** What happens to the service once all trials have come so far. */
  readonly meanwhile?: (trials: readonly Trial[], stage: ClientStage) => Promise<void>;
}
