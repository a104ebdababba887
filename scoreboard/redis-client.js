/** A client of `redis` for the peers that take one, with the settings of its documentation for a server that may fail. */

export async function connectRedis(url, { hasFaults = false }) {
  const { createClient } = await import("redis");
  const client = createClient({
    url,
    // Without these, calls wait in the client's queue until the server is back.
    ...(hasFaults && {
      disableOfflineQueue: true,
      socket: {
        connectTimeout: 1_000,
        socketTimeout: 1_500,
        reconnectStrategy: (retries) => Math.min(100 * (retries + 1), 1_000),
      },
    }),
  });
  client.on("error", () => {});
  await client.connect();
  return client;
}
