import { openStore } from "nevertwice/stores/open";
import { createApp } from "./app";

async function main(): Promise<void> {
  const store = await openStore(process.env.STORE_URL ?? "memory:");
  createApp(store, async ({ key }) => `receipt-${key.slice(0, 8)}`).listen(process.env.PORT ?? 3000);
}

void main();
