/** Whose connection it is, as far as limits go: an IPv4 address, or the /64 network that one IPv6 subscriber has. */
import { type BlockList, isIPv6 } from "node:net";

export function clientNetwork({
  remoteAddress = "",
}: {
  readonly remoteAddress?: string | undefined;
}): string {
  const address = plainAddress(remoteAddress);
  if (!isIPv6(address)) return address;
  const [before = "", after] = address.split("::");
  const head = before === "" ? [] : before.split(":");
  const tail = after === undefined || after === "" ? [] : after.split(":");
  const zeros = after === undefined ? 0 : 8 - head.length - tail.length;
  const groups = [...head, ...Array.from({ length: Math.max(0, zeros) }, () => "0"), ...tail];
  return `${groups.slice(0, 4).join(":")}::/64`;
}

/** Without the prefix of an IPv4 address that came over an IPv6 socket. */
export function plainAddress(address: string): string {
  return address.startsWith("::ffff:") ? address.slice("::ffff:".length) : address;
}

export function isListed(list: BlockList, address: string | undefined): boolean {
  if (address === undefined) return false;
  const plain = plainAddress(address);
  return list.check(plain, plain.includes(":") ? "ipv6" : "ipv4");
}
