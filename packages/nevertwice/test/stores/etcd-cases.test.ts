/** Tests the published cases on a real cluster of three members. Every case has its own prefix, because each purges by its own clock. */
import { describeStoreCases, SCANS } from "./cases.ts";
import { newEtcdStore } from "./etcd/stores.ts";

describeStoreCases("etcdStore on three members", newEtcdStore, {
  service: "etcd",
  without: SCANS,
  row: "etcd, three members",
});
