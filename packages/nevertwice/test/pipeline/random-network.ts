/** Random networks, and the changes of a redeploy: parts that are renamed, removed, or get another kind. */
import type { Random } from "../../src/testing/random.ts";
import type { NetworkSketch, NodeSketch, Shell } from "./scene.ts";

export interface Part {
  readonly name: string;
  readonly inPort: string;
  /** The field of its key; undefined for a node without one. */
  readonly key: "id" | "sku" | undefined;
  readonly isBatch: boolean;
  /** The version of the payloads that it accepts; its schema refuses other versions. */
  readonly version: number;
  readonly ports: readonly { readonly name: string; readonly to: readonly string[] }[];
}

/** In an order in which edges only lead forwards; the first node receives the messages. */
export type Plan = readonly Part[];

export function randomPlan(random: Random): Plan {
  const size = random.between(2, 6);
  const names = Array.from({ length: size }, (_, index) => `n${index}`);
  return names.map((name, index): Part => {
    const behind = names.slice(index + 1);
    const ports = behind.length === 0 ? 0 : random.between(1, Math.min(2, behind.length));
    const isBatch = index > 0 && random.chance(0.15);
    return {
      name,
      inPort: "in",
      key: isBatch || random.chance(0.15) ? undefined : random.chance(0.75) ? "id" : "sku",
      isBatch,
      version: 1,
      ports: Array.from({ length: ports }, (_, port) => ({
        name: `p${port}`,
        to: [...new Set([behind[0] as string, random.pick(behind)])].slice(0, random.between(1, 2)),
      })),
    };
  });
}

type Change = (plan: Plan, random: Random, name: (prefix: string) => string) => Plan;

const CHANGES: readonly Change[] = [
  // A node gets another name, and the edges to it follow.
  (plan, random, name) => {
    const { name: before } = random.pick(plan);
    const after = name("n");
    return plan.map((part) => ({
      ...part,
      name: part.name === before ? after : part.name,
      ports: part.ports.map((port) => ({ ...port, to: port.to.map((to) => (to === before ? after : to)) })),
    }));
  },
  // An out-port or an in-port gets another name.
  (plan, random, name) =>
    change(plan, random, (part) => ({
      ...part,
      ports: part.ports.map((port, index) => (index === 0 ? { ...port, name: name("p") } : port)),
    })),
  (plan, random, name) => change(plan, random, (part) => ({ ...part, inPort: name("in") })),
  // An out-port is removed; without any, the node becomes a sink.
  (plan, random) => change(plan, random, (part) => ({ ...part, ports: part.ports.slice(1) })),
  // A node is removed, and the edges to it lead to its successors.
  (plan, random) => {
    if (plan.length < 3) return plan;
    const gone = random.pick(plan.slice(1));
    const next = gone.ports.flatMap(({ to }) => to);
    return plan
      .filter((part) => part !== gone)
      .map((part) => ({
        ...part,
        ports: part.ports
          .map((port) => ({
            ...port,
            to: [...new Set(port.to.flatMap((to) => (to === gone.name ? next : [to])))],
          }))
          .filter(({ to }) => to.length > 0),
      }));
  },
  // An edge leads elsewhere.
  (plan, random) =>
    change(plan, random, (part) => {
      const behind = plan.slice(plan.indexOf(part) + 1);
      if (behind.length === 0) return part;
      return { ...part, ports: part.ports.map((port) => ({ ...port, to: [random.pick(behind).name] })) };
    }),
  // A new node with a key is added in front.
  (plan, random, name) => [
    {
      name: name("n"),
      inPort: "in",
      key: random.pick(["id", "sku"] as const),
      isBatch: false,
      version: 1,
      ports: [{ name: "p0", to: [plan[0]?.name as string] }],
    },
    ...plan,
  ],
  // A node accepts messages of another schema version.
  (plan, random) => change(plan, random, (part) => ({ ...part, version: 2 })),
  // A node's key gets another field, or is removed, or the node becomes a batch.
  (plan, random) =>
    change(plan, random, (part) =>
      part.isBatch ? part : { ...part, key: random.pick(["id", "sku", undefined]) },
    ),
  (plan, random) =>
    change(plan, random, (part) =>
      part === plan[0] ? part : { ...part, key: undefined, isBatch: !part.isBatch },
    ),
];

function change(plan: Plan, random: Random, how: (part: Part) => Part): Plan {
  const chosen = random.pick(plan);
  return plan.map((part) => (part === chosen ? how(part) : part));
}

/** The plan with one to three changes. */
export function redeployed(plan: Plan, random: Random): Plan {
  let count = 0;
  const name = (prefix: string) => `${prefix}-${random.between(1, 99)}-${count++}`;
  let after = plan;
  for (let left = random.between(1, 3); left > 0; left--) after = random.pick(CHANGES)(after, random, name);
  return after;
}

export interface Payload {
  readonly id: string;
  readonly sku: string;
}

/** `effect` is what a node does for one payload; each node then emits the payload on all of its ports. */
export function sketchOf(
  plan: Plan,
  effect: (part: Part, payload: Payload) => void | Promise<void>,
): NetworkSketch {
  const sketch = (part: Part): NodeSketch => ({
    kind: part.ports.length === 0 ? "sink" : "transform",
    in: { [part.inPort]: { schema: { name: `Order@${part.version}`, check: checkFor(part.version) } } },
    out: part.ports.map(({ name }) => name),
    ...(part.key === undefined ? {} : { key: part.key }),
    ...(part.isBatch ? { batch: { size: 2, withinMs: 50 } } : {}),
    shell: (async (decided, { emit }) => {
      const payloads = Array.isArray(decided) ? decided : [decided];
      for (const payload of payloads) await effect(part, payload);
      return payloads.flatMap((payload) => part.ports.map(({ name }) => emit(name, payload)));
    }) satisfies Shell<Payload | readonly Payload[]>,
  });
  const inPorts = new Map(plan.map(({ name, inPort }) => [name, inPort]));
  return {
    nodes: Object.fromEntries(plan.map((part) => [part.name, sketch(part)])),
    edges: plan.flatMap(({ name, ports }) =>
      ports.flatMap((port) => port.to.map((to) => `${name}.${port.name} > ${to}.${inPorts.get(to)}`)),
    ),
    in: { orders: `${plan[0]?.name}.${plan[0]?.inPort}` },
  };
}

function checkFor(version: number) {
  return (payload: unknown) => {
    if (version === 1) return payload;
    throw new TypeError(`this is no Order@${version}`);
  };
}
