/**
 * `replicas` on a cluster. WAIT counts only on the connection that took the step, and the cluster client may repeat a script
 * on another one. So the store chooses the connection itself: the one to the master of the record's slot. A server that does
 * not have the slot runs nothing and names the one that does, which gets the script and its WAIT instead.
 */
import { NevertwiceError } from "../../core/errors.ts";
import type { RedisAdapter } from "./client.ts";
import type { ClusterNodes } from "./cluster-nodes.ts";
import { redirection } from "./errors.ts";
import type { Evaluation, WritingConnection } from "./evaluation.ts";
import { createReplication, type Replication } from "./replicas.ts";

/** How often a script follows a slot that is moving. */
const MOST_TRIES = 5;

/** `evaluate` and `nodes` of the adapter, whose scripts count only once replicas have what they wrote. */
export function replicatedCluster(
  adapter: RedisAdapter,
  nodes: ClusterNodes,
  replication: Replication,
): Required<Pick<RedisAdapter, "evaluate" | "nodes">> {
  const evaluateOn = createReplication(replication);
  const { sent, stored } = adapter.prefixes("");
  const toStored = (key: string): string => stored.slice(sent.length) + key;

  /** Lets the client find the master of this key: it follows the answer of a server that no longer has the slot. */
  const learn = (key: string): Promise<unknown> => adapter.evaluate("EVAL", ["return {}", "1", key]);

  async function findMaster(key: string): Promise<object> {
    const known = nodes.find(toStored(key));
    if (known !== undefined) return known;
    await learn(key);
    return nodes.find(toStored(key)) ?? Promise.reject(movingError());
  }

  async function serverAt(address: string, key: string): Promise<object> {
    const known = nodes.at(address);
    if (known !== undefined) return known;
    await learn(key);
    return nodes.at(address) ?? Promise.reject(movingError());
  }

  async function evaluate(command: "EVALSHA" | "EVAL", args: Evaluation): Promise<unknown> {
    const [, , key = ""] = args;
    let connection = await nodes.connect(await findMaster(key));
    for (let tries = 1; ; tries++) {
      try {
        return await evaluateOn(connection, command, args);
      } catch (error) {
        const redirected = redirection(error);
        if (redirected === undefined) throw error;
        if (tries >= MOST_TRIES) throw movingError(error);
        if (redirected.isAsk) {
          connection = asking(await nodes.connect(await serverAt(redirected.address, key)));
        } else {
          await learn(key);
          connection = await nodes.connect(await findMaster(key));
        }
      }
    }
  }

  return {
    evaluate,
    nodes: {
      ...nodes,
      async evaluate(node, command, args) {
        return evaluateOn(await nodes.connect(node), command, args as Evaluation);
      },
    },
  };
}

/** The same connection, to the server that a slot is moving to: it runs a command for this slot only directly after ASKING. */
function asking(connection: WritingConnection): WritingConnection {
  return {
    ...connection,
    async evaluate(command, args) {
      const [, answer] = await Promise.all([connection.send("ASKING"), connection.evaluate(command, args)]);
      return answer;
    },
  };
}

function movingError(cause?: unknown): NevertwiceError {
  return new NevertwiceError("unavailable", "the slot of the record has no master that the client knows.", {
    cause,
  });
}
