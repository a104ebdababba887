/** Moves a slot of a cluster from its master to another one, as an operator does. */
import type { ClaimRequest } from "../../../src/core/store.ts";
import { keySlot } from "../../../src/stores/redis/key-slot.ts";
import type { Cluster } from "../../services/redis-cluster.ts";
import type { Server } from "../../services/server.ts";
import { ioredis } from "./clients.ts";
import { keyOf } from "./scene.ts";

export const MASTERS = 3;

interface Master {
  readonly server: Server;
  readonly admin: ReturnType<typeof ioredis>;
  readonly id: string;
}

export interface Move {
  readonly slot: number;
  readonly from: Master;
  readonly to: Master;
}

/** The slot of the first of these claims whose slot is empty, its master, and another one. A slot that has keys cannot be given away. */
export async function planMove(servers: Cluster, claims: readonly ClaimRequest[]): Promise<Move> {
  for (const { id } of claims) {
    const move = await planSlotMove(servers, keySlot(keyOf(id)));
    if ((await move.from.admin.cluster("COUNTKEYSINSLOT", move.slot)) === 0) return move;
  }
  throw new Error(`each slot of these ${claims.length} claims has keys`);
}

export async function planSlotMove({ nodes }: Cluster, slot: number): Promise<Move> {
  const masters = await Promise.all(
    nodes.slice(0, MASTERS).map(async (server) => {
      const admin = ioredis(server.url);
      const known = String(await admin.cluster("NODES")).split("\n");
      const own = known.find((line) => line.includes("myself"));
      const ranges = (own ?? "").split(" ").slice(8);
      const hasSlot = ranges.some((range) => {
        const [first = "", last = first] = range.split("-");
        return slot >= Number(first) && slot <= Number(last);
      });
      return { server, admin, id: await admin.cluster("MYID"), hasSlot };
    }),
  );
  const from = masters.find(({ hasSlot }) => hasSlot);
  const to = masters.find(({ hasSlot }) => !hasSlot);
  if (from === undefined || to === undefined) throw new Error(`no master has slot ${slot}`);
  return { slot, from, to };
}

export async function startMove({ slot, from, to }: Move): Promise<void> {
  await to.admin.cluster("SETSLOT", slot, "IMPORTING", from.id);
  await from.admin.cluster("SETSLOT", slot, "MIGRATING", to.id);
}

export async function endMove({ slot, from, to }: Move): Promise<void> {
  for (const { admin } of [to, from]) await admin.cluster("SETSLOT", slot, "NODE", to.id);
}
