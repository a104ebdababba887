/** The network that limits count a client by: its IPv4 address, or its IPv6 /64 network, which one subscriber has. */
import { type BlockList, isIPv6 } from "node:net";

export function clientNetwork(remoteAddress = "unknown"): string {
  const address = plainAddress(remoteAddress);
  if (!isIPv6(address)) return address;
  const [head = "", tail] = address.replace(/%.*$/, "").split("::");
  const [before, after] = [head, tail ?? ""].map((part) => part.split(":").filter(Boolean)) as [
    string[],
    string[],
  ];
  const zeros = tail === undefined ? 0 : 8 - before.length - after.length;
  return `${[...before, ...new Array<string>(zeros).fill("0"), ...after].slice(0, 4).join(":")}::/64`;
}

/** Removes the `::ffff:` prefix of an IPv4 address on an IPv6 socket. */
export function plainAddress(address: string): string {
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address;
}

/** The answers of each list, by address. A list checks an address in microseconds, and a client sends many requests. */
const answers = new WeakMap<BlockList, Map<string, boolean>>();
/** Clients can have any number of addresses, so the answers are dropped now and then. */
const MAX_ANSWERS = 1_000;

/** The list must not change after the first call. */
export function isListed(list: BlockList, address: string | undefined): boolean {
  if (address === undefined) return false;
  const known = answers.get(list) ?? new Map<string, boolean>();
  const answer = known.get(address);
  if (answer !== undefined) return answer;
  if (known.size >= MAX_ANSWERS) known.clear();
  const plain = plainAddress(address);
  const isFound = list.check(plain, plain.includes(":") ? "ipv6" : "ipv4");
  answers.set(list, known.set(address, isFound));
  return isFound;
}
