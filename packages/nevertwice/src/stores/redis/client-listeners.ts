/** The listeners of a store on its client: they count lost connections, and keep errors from ending the process. */

/** The event members that every kind of client has. */
export interface RedisEmitter {
  on(event: string, listener: () => void): unknown;
  off?(event: string, listener: () => void): unknown;
}

export interface ClientListeners {
  /** How often a connection of this client has been lost or replaced. */
  losses(): number;
  stop(): void;
}

interface SharedListeners {
  losses: number;
  users: number;
  readonly remove: () => void;
}

/** One set of listeners for each client, however many stores share it. The last store to close removes them. */
const sharedListeners = new WeakMap<object, SharedListeners>();

/**
 * Counts the events `lost`, which report a lost connection, and ignores `error` events: the calls that fail report the error
 * themselves. Without a listener, node-redis would end the process when Redis restarts, and ioredis would print the error. A
 * change of what `readMasters` returns counts as a lost connection: ioredis emits `refresh` whenever it has asked a cluster for its
 * slots.
 */
export function listenToClient(
  client: RedisEmitter,
  lost: readonly string[],
  readMasters?: () => string,
): ClientListeners {
  const shared = sharedListeners.get(client) ?? addListeners(client, lost, readMasters);
  sharedListeners.set(client, shared);
  shared.users++;
  let isStopped = false;
  return {
    losses: () => shared.losses,
    stop() {
      if (isStopped) return;
      isStopped = true;
      if (--shared.users > 0) return;
      sharedListeners.delete(client);
      shared.remove();
    },
  };
}

function addListeners(
  client: RedisEmitter,
  lost: readonly string[],
  readMasters: () => string = () => "",
): SharedListeners {
  const onError = () => {};
  const onLost = () => {
    shared.losses++;
  };
  let masters = readMasters();
  const onRefresh = () => {
    const before = masters;
    masters = readMasters();
    if (masters !== before) shared.losses++;
  };
  const shared: SharedListeners = {
    losses: 0,
    users: 0,
    remove() {
      client.off?.("error", onError);
      client.off?.("refresh", onRefresh);
      for (const event of lost) client.off?.(event, onLost);
    },
  };
  client.on("error", onError);
  client.on("refresh", onRefresh);
  for (const event of lost) client.on(event, onLost);
  return shared;
}
