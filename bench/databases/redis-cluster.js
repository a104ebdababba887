/** A Redis Cluster from which every key was removed. All its masters are counted together, and no replica. */
import { createClient } from "redis";

export async function openDatabase({ url }) {
  const masters = await connectMasters(url);
  await Promise.all(masters.map((master) => master.flushAll("SYNC")));
  const sumFrom = async (read) => {
    const numbers = await Promise.all(masters.map(read));
    return numbers.reduce((sum, number) => sum + number, 0);
  };
  /** Of each record: the memory of the servers also has the buffers between them. */
  const bytes = () => sumFrom(recordBytes);
  return {
    url,
    storeUrl: url.replace("redis://", "redis+cluster://"),
    bytes,
    memoryBytes: bytes,
    logBytes: () => sumFrom(async (master) => numberIn(await master.info("persistence"), "aof_current_size")),
    /** Of their main threads, which run the commands. */
    serverMicroseconds: () =>
      sumFrom(async (master) => {
        const info = await master.info("cpu");
        const seconds =
          numberIn(info, "used_cpu_user_main_thread") + numberIn(info, "used_cpu_sys_main_thread");
        return seconds * 1_000_000;
      }),
    async close() {
      await Promise.all(masters.map((master) => master.close()));
    },
  };
}

async function recordBytes(master) {
  let sum = 0;
  for await (const keys of master.scanIterator({ COUNT: 1_000 })) {
    const each = await Promise.all(keys.map((key) => master.memoryUsage(key)));
    sum = each.reduce((more, bytes) => more + bytes, sum);
  }
  return sum;
}

async function connectMasters(url) {
  const first = await createClient({ url }).connect();
  const nodes = await first.sendCommand(["CLUSTER", "NODES"]);
  await first.close();
  const addresses = [...nodes.matchAll(/^\S+ ([^@ ]+)@\S* \S*master/gm)].map(([, address]) => address);
  return Promise.all(addresses.map((address) => createClient({ url: `redis://${address}` }).connect()));
}

function numberIn(info, name) {
  return Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(info)?.[1] ?? 0);
}
