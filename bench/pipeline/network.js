/** The network that is measured: five nodes in a row, each of which only sends the message on. */
import { definePipeline } from "nevertwice/pipeline";

export const NODES = ["accept", "price", "charge", "pack", "ship"];

/**
 * @param {boolean} isKeyed
 * @param {number} concurrency of each node
 * @param {(node: string, payload: { key: string }) => void} onRun told of each effect
 */
export function networkOf(isKeyed, concurrency, onRun) {
  const nodes = NODES.map((name, index) => {
    const isLast = index === NODES.length - 1;
    const use = {
      node: { id: name, version: "1.0.0", kind: isLast ? "sink" : "transform" },
      ports: { in: { in: {} }, ...(isLast ? {} : { out: { out: {} } }) },
      contract: {
        pure_core: (payload) => payload,
        effect_shell(payload, { emit }) {
          onRun(name, payload);
          return isLast ? undefined : emit("out", payload);
        },
        ...(isKeyed ? { idempotency: { key: "key" } } : {}),
      },
    };
    return [name, { use }];
  });
  return definePipeline({
    network: { id: "orders", version: "1.0.0" },
    nodes: Object.fromEntries(nodes),
    edges: NODES.slice(1).map((name, index) => ({ from: `${NODES[index]}.out`, to: `${name}.in` })),
    expose: { in: { orders: `${NODES[0]}.in` } },
    deploy: { concurrency: Object.fromEntries(NODES.map((name) => [name, concurrency])) },
  });
}
