/** Tests the setup of the shared servers: a URL in the environment is used, and a missing program is reported. */
import { expect, test, vi } from "vitest";
import { SERVICES } from "./services.ts";
import { setup } from "./setup.ts";

test("a URL in the environment is used; a server that is not installed is a reason to skip", async () => {
  for (const variable of Object.values(SERVICES)) vi.stubEnv(variable, `given by ${variable}`);
  vi.stubEnv(SERVICES.redis, "");
  vi.stubEnv(SERVICES.redisCluster, "");
  vi.stubEnv("PATH", "");
  vi.spyOn(process, "getuid").mockReturnValue(1_000);
  const log = vi.spyOn(console, "log");
  const provide = vi.fn();
  const stop = await setup({ provide });
  await stop();
  expect(log, "installing is root's business").not.toHaveBeenCalled();
  expect(provide).toHaveBeenCalledExactlyOnceWith("services", {
    redis: { skipped: "redis-server is not installed: apt-get install redis-server" },
    redisCluster: { skipped: "redis-cli is not installed: apt-get install redis-tools" },
    postgres: "given by NEVERTWICE_TEST_POSTGRES_URL",
    pgbouncer: "given by NEVERTWICE_TEST_PGBOUNCER_URL",
    mysql: "given by NEVERTWICE_TEST_MYSQL_URL",
    dynamodb: "given by NEVERTWICE_TEST_DYNAMODB_URL",
    rabbitmq: "given by NEVERTWICE_TEST_RABBITMQ_URL",
    nats: "given by NEVERTWICE_TEST_NATS_URL",
    etcd: "given by NEVERTWICE_TEST_ETCD_URL",
  });
});
