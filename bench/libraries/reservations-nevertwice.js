/** This library's reservations, as its users use them. */
import { createReservations, WINDOWS } from "nevertwice/reservations";

export async function create({ store: name, target }) {
  const { store, close } = await STORES[name](target);
  const reservations = createReservations({ store, windowMs: WINDOWS.clientReplay });
  return {
    declare: (resource, capacity) =>
      reservations.resources.declare({ key: `declare ${resource}`, resource, capacity }),
    placeHold: reservations.placeHold,
    confirm: reservations.confirm,
    async close() {
      await reservations.close();
      await store.close();
      await close?.();
    },
  };
}

const STORES = {
  async memory() {
    const { memoryReservations } = await import("nevertwice/reservations/memory");
    return { store: memoryReservations() };
  },

  async sqlite({ file }) {
    const { sqliteReservations } = await import("nevertwice/reservations/sqlite");
    return { store: sqliteReservations({ file }) };
  },

  async postgres({ url }) {
    const [{ postgresReservations }, { default: pg }] = await Promise.all([
      import("nevertwice/reservations/postgres"),
      import("pg"),
    ]);
    const client = new pg.Pool({ connectionString: url, max: 10 });
    const store = postgresReservations({ client });
    await store.migrate();
    return { store, close: () => client.end() };
  },
};
