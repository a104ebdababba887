/** A private Kafka: the mock cluster of librdkafka, which kcat hosts for as long as its input is open. */
import { join } from "node:path";
import { find } from "./packages.ts";
import { type Server, startServer } from "./server.ts";

/** `url` is the broker's address, `127.0.0.1:1234`: the cluster takes a port of its own, and forgets all when restarted. */
export async function startKafkaMock(): Promise<Server> {
  const kcat = find("kcat");
  return startServer({
    name: "kafka",
    ready: /bootstrap\.servers=\S+\n/,
    // After the first SIGTERM it continues to read its input.
    stopSignal: "SIGKILL",
    url: (_place, said) => /bootstrap\.servers=(\S+)\n/.exec(said)?.[1] ?? "",
    // A pipe that is open for reading and writing never ends.
    command: ({ folder }) => ["sh", "-c", 'exec "$1" $2 0<>"$3"', "sh", kcat, HOST, join(folder, "input")],
    prepare: async ({ folder }, run) => void (await run("mkfifo", join(folder, "input"))),
  });
}

const HOST = "-P -t boot -b 127.0.0.1:1 -X test.mock.num.brokers=1 -d mock";
