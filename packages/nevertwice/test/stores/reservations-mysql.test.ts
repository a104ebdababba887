/** Tests reservations on MariaDB with the cases of every reservation store. */
import { randomBytes } from "node:crypto";
import { createPool } from "mysql2/promise";
import { inject } from "vitest";
import { mysqlReservations } from "../../src/reservations/mysql.ts";
import { reservationStoreSuite } from "../reservations/store-suite.ts";

reservationStoreSuite(
  "MariaDB",
  async () => {
    const url = new URL(inject("services").mysql as string);
    const name = `test_${randomBytes(6).toString("hex")}`;
    const admin = createPool(url.href);
    await admin.query(`CREATE DATABASE ${name}`);
    await admin.end();
    url.pathname = name;
    const pool = createPool(url.href);
    const store = mysqlReservations({ client: pool });
    await store.migrate();
    return { store, close: () => pool.end() };
  },
  { service: "mysql" },
);
