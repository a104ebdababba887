/**
 * The network between the members of an etcd cluster: a proxy in front of each member, through which the others reach it.
 * A connection says which member opened it, so that one member can be cut off in both directions while the others go on.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export interface PeerNetwork {
  /** The URL by which the others reach each member. */
  readonly urls: readonly string[];
  /** The ids of the members, in decimal, in the order of the ports. */
  name(ids: readonly string[]): void;
  /** From now on no byte reaches this member or comes from it. No connection is closed. */
  cutOff(member: number): void;
  /** Ends every cut. Connections on which bytes were dropped are reset. */
  heal(): void;
  stop(): Promise<void>;
}

interface PeerLink {
  readonly to: number;
  /** The hexadecimal id of the member that opened it, once it has said so. */
  from: string | undefined;
  readonly sockets: readonly Socket[];
  hasSwallowed: boolean;
}

const HOST = "127.0.0.1";
const FROM = /^x-server-from: *([0-9a-f]+)/im;

export async function startPeerNetwork(ports: readonly number[]): Promise<PeerNetwork> {
  const links = new Set<PeerLink>();
  const cut = new Set<number>();
  let names: readonly string[] = [];

  const isCut = ({ from, to }: PeerLink): boolean =>
    cut.has(to) || (from !== undefined && cut.has(names.indexOf(from)));

  function open(to: number, caller: Socket): void {
    const target = connect({ host: HOST, port: ports[to] as number, noDelay: true });
    const link: PeerLink = { to, from: undefined, sockets: [caller, target], hasSwallowed: false };
    links.add(link);
    const close = () => {
      for (const socket of link.sockets) socket.destroy();
      links.delete(link);
    };
    for (const socket of link.sockets) socket.on("error", close).on("close", close);
    const pass = (chunk: Buffer, onward: Socket) => {
      if (isCut(link)) link.hasSwallowed = true;
      else onward.write(chunk);
    };
    caller.on("data", (chunk) => {
      link.from ??= FROM.exec(chunk.toString("latin1"))?.[1];
      pass(chunk, target);
    });
    target.on("data", (chunk) => pass(chunk, caller));
  }

  const listeners: Server[] = ports.map((_, to) =>
    createServer({ noDelay: true }, (caller) => open(to, caller)),
  );
  await Promise.all(listeners.map((listener) => once(listener.listen(0, HOST), "listening")));
  const reset = (isMeant: (link: PeerLink) => boolean): void => {
    for (const link of links) if (isMeant(link)) for (const socket of link.sockets) socket.destroy();
  };
  return {
    urls: listeners.map((listener) => `http://${HOST}:${(listener.address() as AddressInfo).port}`),
    name(ids) {
      names = ids.map((id) => BigInt(id).toString(16));
    },
    cutOff: (member) => void cut.add(member),
    heal() {
      cut.clear();
      reset(({ hasSwallowed }) => hasSwallowed);
    },
    async stop() {
      reset(() => true);
      await Promise.all(listeners.map((listener) => new Promise((resolve) => listener.close(resolve))));
    },
  };
}
