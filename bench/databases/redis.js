/** A Redis from which every key was removed. */
import { createClient } from "redis";

export async function openDatabase({ url }) {
  const client = await createClient({ url }).connect();
  await client.flushAll("SYNC");
  /** The memory of the records: buffers grow and shrink with the traffic. */
  const bytes = async () => {
    const info = await client.info("memory");
    const read = (name) => Number(new RegExp(`^${name}:(\\d+)`, "m").exec(info)[1]);
    return read("used_memory") - read("mem_clients_normal") - read("mem_aof_buffer");
  };
  return {
    url,
    storeUrl: url,
    bytes,
    memoryBytes: bytes,
    /** Of the append-only file; undefined without one. */
    async logBytes() {
      const bytes = /^aof_current_size:(\d+)/m.exec(await client.info("persistence"))?.[1];
      return bytes === undefined ? undefined : Number(bytes);
    },
    /** Of its main thread, which runs the commands. */
    async serverMicroseconds() {
      const info = await client.info("cpu");
      const read = (name) => Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(info)[1]);
      return (read("used_cpu_user_main_thread") + read("used_cpu_sys_main_thread")) * 1_000_000;
    },
    close: () => client.close(),
  };
}
