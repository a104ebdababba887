/** One application with one layer in front of it, in its own process. */
import { apps } from "./apps.js";
import { answerMessages, charge, plan } from "./counted-app.js";

const { framework, store, library, urls, capacity } = plan;
const { openDatabase } = await import(`../databases/${store}.js`);
const { create } = await import(`../libraries/${library}.js`);

const target = await openDatabase({ url: urls[store] });
const { layer, isAnswered, close } = await create({ framework, store, target, capacity });
const app = await apps[framework]({ layer, isAnswered, charge });
answerMessages({
  port: app.port,
  async close() {
    await app.close();
    await close();
    await target.close();
  },
});
