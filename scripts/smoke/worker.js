/** The smoke program as a Worker: a request runs it. */
import { keepPromises } from "./promises.js";

// biome-ignore lint/style/noDefaultExport: a Worker is the default export of its module.
export default {
  fetch: () =>
    keepPromises().then(
      (kept) => Response.json({ kept }),
      (error) => Response.json({ error: String(error?.stack ?? error) }),
    ),
};
