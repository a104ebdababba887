/** An empty Redis: whatever was in it is gone. */
import { createClient } from "redis";

export async function openPlace({ url }) {
  const client = await createClient({ url }).connect();
  await client.flushAll("SYNC");
  return {
    url,
    /** What the records take: buffers come and go with the traffic. */
    async bytes() {
      const info = await client.info("memory");
      const read = (name) => Number(new RegExp(`^${name}:(\\d+)`, "m").exec(info)[1]);
      return read("used_memory") - read("mem_clients_normal") - read("mem_aof_buffer");
    },
    close: () => client.close(),
  };
}
