/**
 * Sharded pub/sub of a cluster: only the servers of a channel's slot get its messages, where plain pub/sub sends each message
 * to every server. A channel has the name of its record's key, so it has the same slot. When that slot moves, or a connection
 * is lost, the client subscribes again; messages in between were missed.
 */
import { isForbidden } from "./errors.ts";

export interface Channels {
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  /** Calls `onBack` when all channels are subscribed again after a lost connection; messages in between were missed. */
  onReconnect(onBack: () => void, channels: () => readonly string[]): void;
}

type ShardListener = (...args: string[]) => void;

/** The members of ioredis' `Cluster` with the option `shardedSubscribers`. */
export interface IoredisShards {
  ssubscribe(channel: string): Promise<unknown>;
  sunsubscribe(channel: string): Promise<unknown>;
  on(event: string, listener: ShardListener): unknown;
}

export function ioredisShards(client: IoredisShards, onMessage: (channel: string) => void): Channels {
  client.on("smessage", onMessage);
  return {
    subscribe: (channel) => client.ssubscribe(channel),
    unsubscribe: (channel) => client.sunsubscribe(channel),
    onReconnect(onBack, channels) {
      // After a change of servers or slots, and emitted before the client has subscribed again. A channel of each slot needs
      // a command of its own.
      client.on("subscribersReady", () => {
        const subscribing = channels().map((channel) => client.ssubscribe(channel));
        if (subscribing.length > 0) void Promise.allSettled(subscribing).then(onBack);
      });
    },
  };
}

/** The members of node-redis' cluster client for sharded pub/sub. */
export interface NodeRedisShards<ChannelListener> {
  sSubscribe(channel: string, listener: ChannelListener): Promise<unknown>;
  sUnsubscribe(channel: string, listener: ChannelListener): Promise<unknown>;
  on(event: string, listener: ShardListener): unknown;
}

export function nodeRedisShards<ChannelListener>(
  client: NodeRedisShards<ChannelListener>,
  listener: ChannelListener,
): Channels {
  return {
    subscribe: (channel) => client.sSubscribe(channel, listener),
    unsubscribe: (channel) => client.sUnsubscribe(channel, listener),
    onReconnect(onBack) {
      // The client connects to each master for its first channel, and only a lost connection has missed messages.
      let isLost = false;
      client.on("node-reconnecting", () => {
        isLost = true;
      });
      client.on("node-ready", () => {
        if (isLost) onBack();
        isLost = false;
      });
    },
  };
}

/** Plain channels from the first refusal on: a server before Redis 7 does not know sharded ones. */
export function shardedOrPlain(sharded: Channels, plain: Channels): Channels {
  let isRefused = false;
  const current = () => (isRefused ? plain : sharded);
  return {
    async subscribe(channel) {
      if (!isRefused)
        try {
          return await sharded.subscribe(channel);
        } catch (error) {
          if (!isForbidden(error)) throw error;
          isRefused = true;
        }
      return plain.subscribe(channel);
    },
    unsubscribe: async (channel) => current().unsubscribe(channel),
    onReconnect(onBack, channels) {
      for (const each of [sharded, plain])
        each.onReconnect(onBack, () => (current() === each ? channels() : []));
    },
  };
}
